"""Floor 10: Spark. Finds a Java, starts Spark, and runs maintenance tasks on it.

Only this package uses pyspark, and it imports pyspark only when Spark is started. ``spark_runner`` is the Runner that
maintenance calls; ``frames`` has the functions that a program calls, ``siltstone.spark.session`` and ``.read``,
``tables`` has ``.read_table``; ``choice`` picks a runner for maintenance that is called from Python; ``starting``
starts Spark, with the Java that ``java`` finds, after ``master`` has checked that a standalone master answers;
``task_attempt`` runs in the executors. ``source`` reads topics as DataFrames, ``sink`` writes them, ``naming`` makes
the names that Spark's pages and notebooks show of both. Read next: ``spark_runner``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.spark.checkpoints import checkpoint
    from siltstone.spark.frames import count, read, session
    from siltstone.spark.naming import named
    from siltstone.spark.sink.batches import write_batch
    from siltstone.spark.source.lag import backlog, lag
    from siltstone.spark.tables import read_table

__all__ = ["backlog", "checkpoint", "count", "lag", "named", "read", "read_table", "session", "write_batch"]

_HOMES = {
    "backlog": "siltstone.spark.source.lag",
    "checkpoint": "siltstone.spark.checkpoints",
    "count": "siltstone.spark.frames",
    "lag": "siltstone.spark.source.lag",
    "named": "siltstone.spark.naming",
    "read": "siltstone.spark.frames",
    "read_table": "siltstone.spark.tables",
    "session": "siltstone.spark.frames",
    "write_batch": "siltstone.spark.sink.batches",
}


def __getattr__(name: str) -> object:
    """Loads the functions that programs call on first use, because Spark's workers import this package, too."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'siltstone.spark' has no attribute {name!r}")
