"""Share groups (KIP-932): the coordinator assigns partitions to members, and a partition may have several. Pure.

A member sends heartbeats (``requests.ShareBeat``) with its subscription. A change of a subscription or of a topic
raises the group's epoch and makes a target for each member, which has it at its next heartbeat. No member waits for
another one, because records, and not partitions, have owners. ``group`` has the values, ``deciding`` decides one
request, and ``log_records`` compares a group before and after a decision, and rebuilds a group from its records. The
leader of a partition knows how far the group has come there (``broker.deliveries``).
"""
