"""Stream set object compaction: many stream set objects become stream objects and at most one stream set object.

A plan is made in these steps, all pure: ``planner`` chooses the candidates from the image alone; then, with their
indexes, ``iterations`` (contiguous blocks of a stream, called *extents*, what each becomes, by size and by
``retention_class``, and the work of each task, under the memory limit), called by ``planner``, which keeps within the
limits of a commit. The result is a ``plan.CompactionPlan``.
``kind`` plans and carries out; ``carrying_out`` is what the engine of ``carrying`` has to know of a round: its ids, its
iterations as tasks (``task_input``, ``task``), its one commit.
"""
