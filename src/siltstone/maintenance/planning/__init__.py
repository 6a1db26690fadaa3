"""Plans: pure functions over values and columns, no I/O and no clock.

A compaction plan is made in this order, one file a step: ``candidates`` (which objects, from the image alone), then,
with their indexes, ``columns`` (index bytes as a table), ``grouping`` (what becomes a stream object), ``placement``
(what does so by its ``retention_class``), ``force_split``, ``exclusion`` (limits), ``iterations`` (the cut under the
memory limit), ``planner`` (all of it). What comes out is a ``plan.CompactionPlan``; ``reads`` and ``joining`` make its
iterations ready for a task, ``rows`` for a person.
"""
