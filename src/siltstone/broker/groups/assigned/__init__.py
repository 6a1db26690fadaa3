"""What consumer groups of KIP-848 and share groups have in common: the coordinator assigns their partitions. Pure.

A change of a subscription or of a topic raises the *epoch* of the group, and an assignor makes *targets* for that epoch
(``group``). A decision is a ``draft`` from which the records follow (``log_records``). ``consumer_protocol`` and
``share_protocol`` add what makes the kinds different.
"""
