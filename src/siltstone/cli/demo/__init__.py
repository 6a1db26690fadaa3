"""``siltstone demo``: real data from end to end, in one command.

``command`` puts the steps in order: ``flights`` (the data), ``thresholds`` (a store small enough to show something),
``loading`` (append), ``figures`` (what reading costs), compaction as ``siltstone compact`` does it, ``figures`` again,
``verifying`` (every record against its source), ``report`` (what it bought). ``story`` says what is going on.
"""
