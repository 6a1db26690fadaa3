"""Stream set object compaction: many stream set objects become stream objects and at most one stream set object.

A plan is made in this order, one module a step, all pure: ``candidates`` (which objects, from the image alone); then,
with their indexes, ``grouping`` (contiguous blocks of a stream, called *extents*, and what each becomes),
``placement`` (what leaves the stream set object because of its ``retention_class``), ``iterations`` (the cut under
the memory limit), and ``planner``, which calls them in turn and keeps within the limits of a commit. The result is a
``plan.CompactionPlan``; ``rows`` shows it to people. ``kind`` plans and carries out; ``carrying_out`` prepares ids,
runs the iterations as tasks (``task_input``, ``task``) and commits once.
"""
