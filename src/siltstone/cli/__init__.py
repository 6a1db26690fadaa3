"""Floor 12: the commands of the program ``siltstone``.

``program`` starts the process, ``main`` lists all commands and loads the one that was typed. Each command has a module,
or a package when it has subcommands or needs helpers of its own.

Flow: a command turns its options into a store (``store_options``) or a cluster (``cluster_options``), calls a lower
floor, and prints the answer (``output``, ``words``). An exception that leaves a command becomes one line on stderr and
an exit status: ``failures``.
"""
