"""``siltstone tail``: ``following`` takes records from the broker, ``formats`` writes them down."""
