"""``siltstone nodes``: the nodes of a store, and commands that drain or forget one."""
