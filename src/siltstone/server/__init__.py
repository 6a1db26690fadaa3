"""Floor 11: one process: its settings, the objects made of them, and the sockets of a Kafka node.

``settings`` loads the settings of a node, ``components`` makes a *node* of them (a stream engine on a store),
``kafka_node`` adds the Kafka broker and its listeners, and ``network`` serves their connections. ``embedded`` has
``siltstone.Broker``, ``maintaining`` the maintenance service. Read next: ``components``.
"""
