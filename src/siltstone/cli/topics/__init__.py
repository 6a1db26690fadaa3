"""``siltstone topics …``. ``command`` is the group, which lists all topics itself; each subcommand has a module of its
name. ``listing`` gathers what is shown of every topic."""
