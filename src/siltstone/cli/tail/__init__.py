"""``siltstone tail``: ``command`` reads records from the broker, ``formats`` turns each into a line, ``sink`` writes
the lines to stdout."""
