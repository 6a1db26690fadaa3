"""``siltstone table``: a topic as the table of its keys."""
