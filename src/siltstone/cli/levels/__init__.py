"""``siltstone status`` and ``siltstone upgrade``: the level of a store, what its nodes run, and the way back."""
