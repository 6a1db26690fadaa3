"""Coordinates consumer groups in the classic protocol: membership, the assignment of partitions, committed offsets.

A *group* has *members*, a *generation* and committed offsets. A *rebalance* has a *join phase*: every member sends
JoinGroup; and a *sync phase*: the leader's assignment reaches the members by SyncGroup. A *known group* is a group in
the memory of its *coordinator*, and each partition of ``__consumer_offsets`` has one coordinator; the partition is the
coordinator's log.

A request is passed from ``apis`` to ``groups`` (all coordinators of this node), ``coordinator`` (one of them) and
``known_groups``, which calls ``rules`` for a decision and performs it: ``log_writer`` appends records to the log in the
formats of ``offsets_log``, ``timers`` sets timers, and the client is answered when the records are durable. ``loading``
reads the groups from the log. Start with ``rules.states``, the table of all this.
"""
