"""Floor 5: append, upload, read. Batches are opaque here.

Reading order: ``engine`` (one node's streams), ``stream`` (one open stream), ``wal`` (durable before the answer),
``tail`` (the cache of what is newest), ``upload`` (sealed blocks → objects → commit → trim), ``recovery``,
``reading`` (what is committed).
"""
