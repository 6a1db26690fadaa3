"""``siltstone quotas``: how much clients may use."""
