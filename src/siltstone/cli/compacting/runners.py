"""Who runs the iterations of a compaction: Spark, or threads of this process."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from siltstone.cli.failures import ExtraMissing
from siltstone.maintenance.in_process_runner import InProcessRunner
from siltstone.maintenance.runner import Runner
from siltstone.model.errors import InvalidRequest
from siltstone.spark.java import find_java
from siltstone.spark.spark_runner import open_runner

SPARK = "spark"
IN_PROCESS = "in-process"
RUNNERS = (SPARK, IN_PROCESS)
LOCAL_MASTER = "local[*]"


class SparkSettingMalformed(InvalidRequest):
    """A --conf is not KEY=VALUE."""


def check_runner(name: str) -> None:
    """Whether the runner can be started, as far as that can be told at once. Raises ExtraMissing, JavaNotFound."""
    if name == SPARK:
        if find_spec("pyspark") is None:
            raise ExtraMissing("pyspark", "spark")
        find_java()


def start_runner(name: str, master: str = LOCAL_MASTER, conf: Mapping[str, str] | None = None) -> Runner:
    """Takes seconds with Spark. Raises SparkNotStarted, and what ``check_runner`` does."""
    check_runner(name)
    return open_runner(master, conf) if name == SPARK else InProcessRunner()


def spark_settings(assignments: Sequence[str]) -> dict[str, str]:
    """Spark's own settings, from KEY=VALUE each. Raises SparkSettingMalformed."""
    settings: dict[str, str] = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator or not key.startswith("spark."):
            raise SparkSettingMalformed(f"--conf {assignment}: write spark.some.setting=VALUE")
        settings[key] = value
    return settings
