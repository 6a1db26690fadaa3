"""What a task needs that takes records out of stream objects. Key compaction keeps the newest of each key, and erasure
removes all of some keys. Offsets never change.

``values`` (objects before and after), ``source_blocks`` (reads and decodes block by block), ``rebuilding`` (batches
with fewer records), ``chunk_writing`` (what becomes of each batch), ``output`` (the new objects).
"""
