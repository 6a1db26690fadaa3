"""The settings of a store: ``store`` is the tree and loads it, ``layers`` reads the sources (file, environment, flags),
``tree`` maps keys to fields, ``listeners`` those of ``listener.NAME.*``, ``values`` parses and formats single values.
Read next: ``store``.
"""
