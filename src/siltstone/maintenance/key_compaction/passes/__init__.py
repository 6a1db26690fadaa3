"""The two scans of a key compaction task. ``first_scan`` maps the keys of the new part of the stream to their newest
offsets. ``second_scan`` decides for every record whether it stays (``judging``) and writes the records that stay. Both
read and write with ``maintenance.record_rewriting``; ``batches`` and ``chunking`` decode; ``key_map`` and
``transactions`` hold what the first scan learns.
"""
