"""``siltstone tables``: the topics that are kept as tables. ``command`` is the parent of its commands, and lists."""
