"""Key compaction: of each key of a compacted topic only the latest record stays; offsets do not change.

``planning`` (which streams, and how far: pure), ``kind``, ``carrying_out`` (waves of streams, a commit for each),
``task_input`` and ``task`` (one stream), ``passes`` (the two scans of a task), ``kernels`` (the inner loops, plain and
compiled).
"""
