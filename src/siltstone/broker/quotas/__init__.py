"""Quotas of clients: how much users, client ids and addresses may use on this node, as in Kafka.

``precedence`` says which limit wins and which clients share it, ``windows`` how long a client above it waits.
``throttling`` charges clients and mutes their connections. (``backlog`` has the quotas of topics for their groups.)
"""
