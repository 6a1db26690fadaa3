"""Kafka's protocol for tests: batches, raw connections, broken frames, other libraries as oracles."""
