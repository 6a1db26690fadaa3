"""What others made and we are held against: Apache Kafka's broker, clients, tools and message classes, and another
broker, each driven from Python. For tests and benchmarks: siltstone never imports it. Begin with ``java_artifacts``."""
