"""Siltstone: a stream store on object storage, with its data pipeline on Apache Spark.

The folders are the architecture, one floor each; ARCHITECTURE.md gives the reading order.
"""

__version__ = "0.1.0"
