"""Garbage collection, after BookKeeper. Objects without a live byte are destroyed unread (``dead_objects``, a kind of
its own). Objects with few live bytes are rewritten without the others (``kind``: minor and major collection).

``planning`` (live bytes, candidates, rounds; pure), ``looking`` (reads the indexes of likely candidates), ``kind``
(plans), ``carrying_out`` (rewrites and commits).
"""
