"""The records of ``__consumer_offsets``, in Kafka's own formats: bytes ⇄ values.

A key says what a record is about (``keys``), a value what holds now (``committed_offset``, ``group_metadata``); a
record without a value is a tombstone. The newest record of a key counts, so state is the fold of the log.
"""
