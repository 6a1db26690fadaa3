"""``siltstone buckets``: the buckets of a store, and the strategy by which new objects are spread over them."""
