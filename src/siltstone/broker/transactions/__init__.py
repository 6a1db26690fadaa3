"""Coordinates transactions: what a producer writes to several partitions becomes visible as a whole, or never (KIP-98).

A *transaction* belongs to a *transactional id*, which a producer keeps when it is started again. The id has a producer
id and an *epoch*: a higher one fences every earlier instance of the producer. A transaction ends in two steps: its
*prepared* outcome is written to ``__transaction_state``, which decides it, and a *transaction marker* to each of its
partitions; then it is *complete*.

A client that speaks *transaction version* 2 (KIP-890) gets another epoch at the end of each transaction, so a marker or
a batch that comes late cannot belong to the next transaction. A client of version 1 keeps its epoch.

``rules`` decides, as pure functions; start with ``rules.states``, the table. ``coordinator`` performs the decisions for
the transactional ids of one partition of ``__transaction_state``, whose records are in ``state_log``; ``ports`` says
what it needs of the broker. A request is passed from ``apis`` to ``transactions``, all coordinators of this node, and
from there to one of them, whose life is in ``broker.coordination``.
"""
