"""Garbage collection: objects of which nothing is live are destroyed unread, those of which little is are rewritten
(BookKeeper's two levels).

``settings`` (thresholds), ``live_bytes`` (what of an object is live: pure), ``choosing`` (which objects are worth it,
in which rounds: pure), ``looking`` (image and indexes → candidates), ``planned`` (units as they are shown),
``collection`` (the kinds minor-gc and major-gc), ``collection_plan`` and ``round`` (carrying them out),
``dead_objects`` (the kind that reads nothing), ``scoped`` (runs by topic).

What is live is worked out from the image and the index each time, never counted down: a counter that was wrong once
stays wrong.
"""
