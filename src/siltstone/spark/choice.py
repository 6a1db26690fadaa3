"""Who does the work that is asked for from Python: a user's own Spark, one started for it, or this process."""

from typing import TYPE_CHECKING, Any

from siltstone.maintenance.tasks.runner import InProcessRunner, Runner
from siltstone.model.errors import InvalidRequest
from siltstone.spark.spark_runner import SparkRunner, open_runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class NoSparkContext(InvalidRequest):
    """What was given as ``spark`` cannot run tasks."""


def runner_on(spark: "SparkSession | str | None") -> Runner:
    """A session is used and left running; a master such as ``local[*]`` is started, and ended when the runner is
    closed; None: this process. Raises NoSparkContext, JavaNotFound, SparkNotStarted."""
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
