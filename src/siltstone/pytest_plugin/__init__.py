"""Floor 8: what pytest finds when siltstone is installed."""
