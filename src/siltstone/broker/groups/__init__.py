"""Coordinates groups: membership, the assignment of partitions, committed offsets.

A *classic* group has *members*, a *generation* and committed offsets. A *rebalance* has a *join phase*: every member
sends JoinGroup; and a *sync phase*: the leader's assignment reaches the members by SyncGroup. The broker assigns the
partitions of a *consumer* group (KIP-848, ``consumer_protocol``) and of a *share group* (KIP-932, ``share_protocol``),
whose members send heartbeats; ``assigned`` has what the two share. A *known group* is a group in the memory of its
*coordinator*, and each partition of ``__consumer_offsets`` has one coordinator; the partition is the coordinator's log.

A request is passed from ``apis`` to ``groups`` (all coordinators of this node), ``coordinator`` (one of them) and
``known_groups``, which calls ``rules`` for a decision and performs it: ``log_writer`` appends records to the log in the
formats of ``offsets_log``, timers are set, and the client is answered when the records are durable. ``loading`` reads
the groups from the log. The life of a coordinator is in ``broker.coordination``. Start with ``rules.states``, the table
of classic groups.
"""
