"""How far a share group has come in one partition (KIP-932), as a value, and the steps from one value to the next. Pure.

A share group has no owner of a partition: each record of it is *acquired* by one member for a time, and then
*acknowledged*. ``progress`` has the value, a list of spans of offsets that are in the same state; ``steps`` has what
members and time do with it; ``kept`` turns it into what the log keeps, and back. The leader of the partition holds the
values (``partitions.share_progress``), and ``shares`` asks for the steps.
"""
