"""confluent-kafka, that is librdkafka: its newest."""
