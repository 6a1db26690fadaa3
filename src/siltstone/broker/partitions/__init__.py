"""Partitions: appends and reads of record batches, and what the broker knows about the batches it has appended.

``partitions`` opens partitions and ends them (``opening`` recovers one after a start); ``partition`` is an open one.
``admission`` checks a batch before it is appended. What a partition knows of its batches: ``producer_state`` (sequence
numbers of idempotent producers), ``time_index`` (used by ``time_lookup``), ``segments`` (reported to the metadata by
``segment_rolls``); ``snapshot`` is the format in which all three are stored. ``leader_epochs`` answers from the
metadata, so it stores nothing. Read next: ``partition``.
"""
