"""Reads of committed objects. A read turns offsets into ranges (from the image), ranges into *blocks* (from the
indexes of the objects), and missing blocks into *requests*, which are ranged GETs.

Reading order: ``committed_reader`` (one read from beginning to end), ``read_plan`` (which blocks and requests; pure),
``answer`` (the batches taken from blocks), ``block_fetcher`` (ranged GETs, each block once, within a ``byte_budget``),
``block_cache``, ``index_cache``, ``read_ahead``.
"""
