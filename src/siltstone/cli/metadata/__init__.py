"""``siltstone metadata``: where the metadata of a store is."""
