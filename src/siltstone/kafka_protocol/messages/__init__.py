"""The messages of the protocol: one module per API, one class per message for all its versions.

``tools/kafka-messages`` writes them from Kafka's published schemas, in the notation of ``notation``. Class names are
Kafka's; field names are Kafka's in snake case. Produce and Fetch have some shorter names, which the tool lists.
``catalogue`` maps each API key to its two messages.
"""
