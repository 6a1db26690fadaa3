"""Decisions about the transactions of one transactional id: (transaction, request, now) → decision. Pure: no clock, no
randomness, no event loop.

A *request* (``requests``) is an *event* to the *transaction* (``transaction``) that it meets; ``states`` has a *rule*
for each event in each state; a rule has *steps*, which write the *decision* (``decision``): the transaction after it,
the answer, a record, and the markers to write. ``epochs`` says when an epoch is current, repeated or used up.
``deciding`` does this for one request; read it after ``states``.
"""
