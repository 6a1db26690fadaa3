"""Retention and roll-over: when a segment is closed, and which closed ones go. Retention only trims; it deletes nothing
itself (DESIGN section 2).

``rolling`` (when a segment is full: brokers ask it at each append), ``past`` (segments of data from before there were
any), ``walk`` (how far one stream may be trimmed: pure), ``planning`` (of all topics: pure), ``kind`` (plan and
commit). Sources: reference/key-compaction-retention-gc.md, sections 2.3, 3.1, 3.2 and 5.3.
"""
