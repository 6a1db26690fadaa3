"""Stream object compaction: contiguous stream objects of a stream become one, copied inside the store.

``unit`` (what a task is given, and what it answers), ``copying`` (the task), ``wave`` (several groups at once: ids,
uploads, tasks, a commit for each), ``kind`` (plan and units). What is worth it, and how an object is put together, is
decided in ``planning.stream_objects``.
"""
