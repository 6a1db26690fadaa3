"""``siltstone maintain …``. ``command`` is the group; each subcommand has a module of its name. ``options`` holds the
options that several subcommands share, ``progress`` the progress bar, ``tables`` shows plans and reports as text."""
