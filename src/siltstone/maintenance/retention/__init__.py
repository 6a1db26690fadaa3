"""Retention and roll-over: when a segment is closed, and which closed ones go. Retention only trims; it deletes nothing
itself.

``rolling`` (when a segment is full: brokers ask it at each append), ``past`` (segments of data from before there were
any), ``walk`` (how far one stream may be trimmed: pure), ``planning`` (of all topics: pure), ``kind`` (plan and
commit). Sources: Kafka's ``UnifiedLog.deleteOldSegments``, Pulsar's ``ManagedLedgerImpl``; R1 to R18, O1 to O7.
"""
