"""Share groups at the leaders of partitions (KIP-932): members acquire records here and acknowledge them here.

A member has a *session* with each node (``sessions``), in which it names partitions once. A request first acknowledges
(``acknowledging``), then acquires (``fetching``): both are steps of ``broker.deliveries``, which ``shares`` performs on
the open partition, with the timers of locks and the waits for records. ``group_configs`` has what is configured for a
group.
The members and their assignment are with the coordinator (``groups.share_protocol``).
"""
