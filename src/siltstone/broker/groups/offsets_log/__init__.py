"""The records of ``__consumer_offsets`` in Kafka's own formats, bytes ⇄ values: ``record`` holds the layouts,
``fields`` the primitive types.

Committed offsets and groups are rebuilt from these records: the newest record of each key counts.
"""
