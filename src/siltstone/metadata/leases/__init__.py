"""The lease board: the last *beat* of each node, beside the metadata log. ``board`` is the port and the adapter in
memory, ``sqlite_board`` the one for processes on one machine, ``postgres_board`` the one for several machines.

A beat is no record: it has no version, makes no image and waits for no append. What follows from silence is decided in
``cluster`` (which node looks, and when) and in ``metadata.decisions.membership`` (what is then refused).
"""
