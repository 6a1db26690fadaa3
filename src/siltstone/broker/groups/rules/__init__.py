"""Decisions about one group: (group, request, now) → decision. Pure: no clock, no randomness, no event loop.

A *request* (``requests``) is an *event* to the *group* (``group``) that it meets; ``states`` has a *rule* for each
event in each state; a rule has *steps* (``membership_steps``, ``offset_steps``), which write the *decision*
(``decision``): the new group, answers, timers, records. ``deciding`` does this for one request; read it after
``states``.
"""
