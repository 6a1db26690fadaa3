"""Floor 0: small algorithms that the standard library lacks. They are pure and know nothing of streams.

========================  ================================================================================
``crc32c``                checksums of lists of buffers, and of a concatenation from the checksums of its parts
``milliseconds``          times as whole milliseconds since 1970
``portions``              splits a sequence of items into batches that keep to several limits
``quantity_words``        counts, sizes and durations as people read them
``sharded_map``           an immutable mapping that is cheap to change in batches
========================  ================================================================================
"""
