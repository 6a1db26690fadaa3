"""Key compaction: of each key of a compacted topic only the newest record is kept; offsets do not change.

``planning`` (which streams are compacted, up to which offset, in what time; pure), ``kind`` (plans and carries out),
``carrying_out`` (waves of streams, a commit for each stream), ``task_input`` and ``task`` (what an executor runs for
one stream), ``passes`` (the two scans of a task), ``kernels`` (the inner loops, plain and compiled).
"""
