"""Garbage collection in two steps, after BookKeeper: objects without a live byte are destroyed unread
(``dead_objects``, a kind of its own); objects with few live bytes are rewritten (``kind``: minor and major
collection).

``planning`` (live bytes, candidates, rounds; pure), ``looking`` (reads the indexes of likely candidates), ``kind``,
``carrying_out``.
"""
