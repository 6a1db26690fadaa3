"""Floor 2: Kafka's bytes ⇄ values, sans-I/O: messages, headers, record batches."""
