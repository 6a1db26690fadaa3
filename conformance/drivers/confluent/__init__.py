"""confluent-kafka, which uses the newest librdkafka."""
