"""Floor 8: the commands people type. ``main`` is the way in, one small file holds each command.

A command turns its arguments into settings, opens what it needs (``store_options``), calls a lower floor, and shows
what came back (``output``, ``words``). What it may fail with, and what the shell hears of it: ``failures``.
"""
