"""``siltstone demo``: a broker, real data from end to end, in one command.

``command`` puts the steps in order: ``flights`` (the data), ``thresholds`` (a store small enough to show something),
``kafka_client`` (an ordinary client produces and consumes), ``choosing`` and ``figures`` (what reading costs),
compaction as ``siltstone compact`` does it while ``trickle`` goes on producing, ``figures`` again, ``verifying`` (every
record against its source), ``report`` (what it bought). ``story`` says what is going on, ``place`` where.
"""
