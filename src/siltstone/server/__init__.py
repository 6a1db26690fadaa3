"""Floor 10: one process: its settings, the objects made of them, and the sockets of a Kafka node.

``settings`` loads the settings of a store, ``components`` makes a *store* of them (metadata and buckets, for commands
and maintenance) or a *node* (a stream engine on a store), ``kafka_node`` adds the Kafka broker and its listeners, and
``network`` serves their connections. ``opening`` has ``siltstone.open_store``, ``embedded`` has ``siltstone.Broker``,
``maintaining`` the maintenance service. Read next: ``components``.
"""
