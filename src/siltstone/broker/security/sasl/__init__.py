"""The login of a connection, as pure steps: bytes in, bytes and a name out.

``states`` is the table of what a connection may ask at which point of its login; ``scram`` and ``plain`` are the two
mechanisms by a password. ``authenticator``, which knows the users, the time and the listeners, walks the table.
"""
