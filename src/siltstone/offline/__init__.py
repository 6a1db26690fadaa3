"""Floor 5: what a program without a broker needs of a store: its buckets and its metadata, and tasks on a
``Runner``.

A ``MaintenanceContext`` is an opened store. Scans, sinks, tables and maintenance give *tasks* to a *runner*, in this
process or on Spark; each task gets one *task input* and reads or writes objects.

Reading order: ``opening`` (finds a store and opens it), ``context``, ``settings`` (of the kinds), ``topic_streams``
(whose records a stream has), ``tasks`` (what any task needs), ``blocks`` (index entries as columns), ``output_buckets``
(where new objects go), ``pressure`` (how full disks are).
"""
