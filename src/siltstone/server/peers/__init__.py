"""The other nodes of the store. ``peers`` keeps a connection to each and is the broker's ``Peers``; ``connection``
opens one, proves both ends, and asks; ``listener`` says where nodes reach each other; ``opening`` puts these together.
Read next: ``peers``.
"""
