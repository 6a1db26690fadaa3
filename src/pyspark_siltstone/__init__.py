"""Spark finds the format ``siltstone`` through this package: it looks for ``DefaultSource`` in installed packages named
``pyspark_…``, so ``spark.read.format("siltstone")`` needs no registration."""

from siltstone.spark.source.data_source import TopicDataSource as DefaultSource

__all__ = ["DefaultSource"]
