"""``siltstone acls``: who may do what. ``command`` has the commands, ``options`` how they name resources."""
