"""Stream object compaction: contiguous stream objects of one stream become one object, mostly by copies inside the
store.

``planning`` (which neighbours are worth merging: a *merge group*; pure), ``merge`` (the copied and rewritten parts of
one new object; pure), ``carrying_out`` (a *wave* of merge groups: one run of tasks, a commit for each group),
``task_input`` and ``task`` (what an executor runs), ``kind`` (plans and carries out).
"""
