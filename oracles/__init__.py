"""Programs of others with which ours is compared: Apache Kafka's broker, clients, tools and message classes, another
broker, and a catalog of Iceberg, each driven from Python. They are for tests and benchmarks: siltstone never imports
them. Begin with ``java_artifacts``."""
