"""``siltstone transactions …``. ``command`` is the group of commands, which lists all transactional ids itself; each
subcommand has a module of its name."""
