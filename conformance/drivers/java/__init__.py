"""The Java client of Kafka 4: producer, consumer and Admin, through py4j on a Java machine of the driver's own."""
