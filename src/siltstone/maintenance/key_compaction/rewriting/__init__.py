"""The task of a key compaction: from a unit to the objects that take the place of its sources.

``run`` (the entry) → ``first_scan`` (what has to be known before anything may go: newest offsets, outcomes of
transactions, last batches of producers) → ``second_scan`` (what stays, written). ``source_blocks`` reads,
``chunking`` opens batches, ``judging`` decides, ``rebuilding`` makes smaller batches, ``output`` puts objects together;
``kernels`` hold all loops over records.

Memory: the map, two read requests, one output object, and the records of one chunk (``chunking``).
"""
