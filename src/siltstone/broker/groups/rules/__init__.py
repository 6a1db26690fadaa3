"""Decisions about one group: (group, request, now) → group and actions. Pure: no clock, no chance, no event loop.

``states`` holds the table, ``deciding`` walks it, ``steps`` says what each word of it does.
"""
