"""``siltstone tail``: ``command`` takes records from the broker, ``formats`` writes them down."""
