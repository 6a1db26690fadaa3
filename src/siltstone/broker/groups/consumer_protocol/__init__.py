"""Consumer groups of KIP-848, in which the coordinator assigns the partitions. Pure.

A member sends heartbeats (``requests.ConsumerBeat``) with its subscription and the partitions that it owns. A change of
a subscription or of a topic raises the group's epoch; an assignor (``assignors``) makes a target assignment for that
epoch; and each member goes from what it has to its target by heartbeats (``reconciliation``), which first take
partitions away and then give them. ``deciding`` does all that for one request; ``group`` has the values. All of a group
is in the log: ``log_records`` compares a group before and after a decision, and rebuilds a group from its records.
"""
