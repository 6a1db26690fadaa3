"""Reading what is committed.

Reading order: ``committed_reader`` (one read from beginning to end), ``read_plan`` (which blocks, which requests;
pure), ``block_fetcher`` (ranged GETs, each block once), ``block_cache``, ``index_cache``, ``read_ahead``.
"""
