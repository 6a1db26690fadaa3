"""The fixture ``siltstone_broker`` for pytest."""
