"""``siltstone table``: shows the newest value of each key of a topic."""
