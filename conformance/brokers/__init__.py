"""Where the broker under test comes from."""
