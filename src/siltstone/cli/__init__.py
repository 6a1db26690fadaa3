"""Floor 8: the commands people type. ``program`` is the way in, ``main`` knows all commands, one small file holds
each.

A command turns its arguments into settings, opens what it needs (``store_options``), calls a lower floor, and shows
what came back (``output``, ``words``). What it may fail with, and what the shell hears of it: ``failures``.
"""
