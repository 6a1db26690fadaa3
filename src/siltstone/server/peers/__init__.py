"""Connections to the other nodes of the store: ``peers`` keeps one for each node and is the broker's ``Peers``;
``connection`` opens one, proves both ends, and asks. Read next: ``peers``.
"""
