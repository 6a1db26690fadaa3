"""Retention: trims closed segments by time, by size, and by what consumer groups have read. It moves the start
offsets of streams and deletes nothing itself.

``past`` (segments of data that no closed segment covers; pure), ``groups`` (how far consumer groups have read; pure),
``planning`` (how far each stream may be trimmed; pure), ``kind`` (plan and commit). When a segment is full is decided
in ``topic_configs.rolling``. Sources: Kafka's ``UnifiedLog.deleteOldSegments``, Pulsar's ``ManagedLedgerImpl``; R1 to
R18, O1 to O7.
"""
