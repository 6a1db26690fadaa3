"""``siltstone users``: who may log in to the brokers of a store, and with which password."""
