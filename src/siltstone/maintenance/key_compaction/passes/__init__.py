"""The two scans of a key compaction task. ``first_scan`` maps the keys of the new part of the stream to their latest
offsets; ``second_scan`` decides for every record whether it stays (``judging``) and writes what stays
(``rebuilding``, ``output``). Both read through ``source_blocks``; ``batches`` and ``chunking`` decode; ``key_map``
and ``transactions`` are what the first scan learns.
"""
