"""Floor 6: Kafka's semantics on the stream engine: topics, partitions, groups. Async, without sockets."""
