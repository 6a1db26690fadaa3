"""Floor 6: the records of topics read straight from the buckets, for Spark and for Python without Spark.

A *scan* reads a *cut* of each partition: its offsets from a start to an end, settled by one image when the scan is
planned. A *piece* is a part of a cut that one object holds; a *tail piece* is the part that is in no object yet and
that the broker of the partition has. A *scan unit* is what one Spark task reads: some pieces. Objects never change, so
a plan gives the same rows as often as it is read.

Reading order: ``request`` (what is wanted), ``unit`` (what a task is given), ``planning`` (pure: image → cuts →
pieces), ``times`` (offsets by time), ``tail`` (what is not in objects yet), ``scan`` (the whole plan), ``reading`` (the
blocks of a unit), ``rows`` (a unit's Arrow record batches), ``result`` (what a Python program gets), ``from_python``
(``siltstone.scan``), ``querying`` (``siltstone sql``).
"""
