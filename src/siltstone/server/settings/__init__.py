"""The settings of a node: ``node`` is the tree and loads it, ``listeners`` reads the settings of ``listener.NAME.*``,
``admin`` has the settings of metrics and health. The settings of the store below it are in ``offline.opening``. Read
next: ``node``.
"""
