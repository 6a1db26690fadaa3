"""``siltstone serve``, in reading order: ``command`` has the options, ``one_node`` runs a broker in this process,
``several_nodes`` runs a process for each node, and ``kept_process`` starts a process again when it dies."""
