"""``siltstone groups …``. ``command`` is the group of commands, which lists all consumer groups itself; each subcommand
has a module of its name. ``lag`` computes how far a consumer group is behind, ``listing`` the row of each."""
