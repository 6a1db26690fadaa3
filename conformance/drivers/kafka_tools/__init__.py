"""Kafka's own command-line tools, each a Java process of its own; see ``oracles.java_tools``."""
