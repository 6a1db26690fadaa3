"""The tail cache holds the newest batches of all streams until they are committed, and as long as there is room after.

Reading order: ``cache_block`` (what is sealed, uploaded and evicted together), ``stream_tail`` (one stream's cached
batches by offset), ``tail_cache`` (all blocks and tails, limited in bytes).
"""
