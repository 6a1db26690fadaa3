"""``siltstone groups …``: ``command`` has the list and the subcommands, one small file each."""
