"""``siltstone produce``: lines become records (``lines``, ``reading``), a producer brings them to the broker."""
