"""``siltstone consume``: ``command`` has the options, ``consuming`` reads as a member of a group and prints, and
``held_signals`` keeps Ctrl-C from separating what was printed from what is committed."""
