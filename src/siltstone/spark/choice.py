"""Chooses the runner for maintenance that is called from Python: the user's own Spark, a Spark started for it, or this
process."""

from typing import TYPE_CHECKING, Any

from siltstone.model.errors import InvalidRequest
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from siltstone.spark.spark_runner import SparkRunner, open_runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoSparkContext(InvalidRequest):
    """The Spark session has no context, so it cannot run tasks."""


def runner_on(spark: "SparkSession | str | None") -> Runner:
    """Returns a runner on a session, which is left running; on a Spark that is started for a master such as
    ``local[*]``, and stopped when the runner is closed; or, for None, in this process. Raises NoSparkContext,
    JavaNotFound, SparkNotStarted."""
    if spark is None:
        return InProcessRunner()
    if isinstance(spark, str):
        return open_runner(spark)
    context: Any = None
    try:
        context = spark.sparkContext
    except Exception as failure:  # Spark Connect has sessions without one
        raise NoSparkContext(
            "this Spark session has no context (Spark Connect has none): give a master, such as local[*]"
        ) from failure
    return SparkRunner(context)
