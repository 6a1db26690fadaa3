"""Finds a store and opens it without a node: its settings, its metadata and its buckets.

``settings`` is the tree and loads it, ``layers`` reads the sources (file, environment, flags), ``tree`` maps keys to
fields, ``values`` parses and formats single values, ``store`` opens metadata and buckets, ``shown`` describes an opened
store. The settings of a node build on these: ``server.settings``. Read next: ``settings``.
"""
