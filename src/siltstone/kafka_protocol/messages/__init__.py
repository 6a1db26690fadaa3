"""The messages of the protocol, one module per API, one description for all versions of it.

They are written by ``tools/kafka-messages`` from Kafka's published schemas, in our ``notation``; class and field names
are Kafka's own, the latter in snake case. ``catalogue`` has them by API key.
"""
