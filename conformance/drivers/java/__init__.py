"""The Java client of Kafka 4: producer, consumer and Admin, called through py4j in a JVM of the driver."""
