"""Kafka's own command-line tools, each in a JVM of its own; see ``oracles.java_tools``."""
