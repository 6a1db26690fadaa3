"""Stream object compaction: contiguous stream objects of one stream become one, mostly copied inside the store.

``planning`` (which neighbours are worth merging: a *merge group*; pure), ``merge`` (how one object is put together from
copied and rewritten parts; pure), ``carrying_out`` (a *wave* of merge groups in one run of tasks, a commit for each),
``task_input`` and ``task``, ``kind``.
"""
