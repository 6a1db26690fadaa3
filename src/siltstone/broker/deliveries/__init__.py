"""How far a share group has come in one partition (KIP-932): a value, and the steps from one to the next. Pure.

In a share group a partition has no owner: each of its records is *acquired* by one member for a time, and then
*acknowledged*. ``progress`` has the value, a list of spans of offsets in the same state; ``steps`` has what members and
time do with it; ``kept`` turns it into what the log keeps, and back. The leader of the partition holds the values
(``partitions.share_progress``), and ``shares`` asks for the steps.
"""
