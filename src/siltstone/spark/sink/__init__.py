"""``df.write.format("siltstone")`` and ``writeStream``: DataFrames into topics, each batch exactly once.

``options`` turns texts into values, ``writers`` has the classes that Spark calls, ``batches`` is for ``foreachBatch``;
everything else is in ``sinking``, which is tested without a JVM.
"""
