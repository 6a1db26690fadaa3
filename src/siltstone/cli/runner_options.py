"""``--runner``, ``--master`` and ``--conf``: whether Spark or this process runs the tasks of maintenance."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.util import find_spec
from typing import Any, TypeVar

import click
import msgspec

from siltstone.cli.failures import ExtraMissing
from siltstone.model.errors import InvalidRequest
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from siltstone.spark.java import find_java
from siltstone.spark.spark_runner import open_runner

SPARK = "spark"
IN_PROCESS = "in-process"
RUNNERS = (SPARK, IN_PROCESS)
LOCAL_MASTER = "local[*]"


Command = TypeVar("Command", bound=Callable[..., Any])


class SparkSettingMalformed(InvalidRequest):
    """A --conf is not spark.KEY=VALUE."""


class RunnerChoice(msgspec.Struct, frozen=True):
    """The three options as they were typed. ``settings``: Spark's own settings, from --conf."""

    name: str
    master: str
    settings: dict[str, str]

    @property
    def is_spark(self) -> bool:
        return self.name == SPARK

    def check(self) -> None:
        """Raises ExtraMissing, JavaNotFound: see ``check_runner``."""
        check_runner(self.name)

    def start(self) -> Runner:
        """Raises what ``start_runner`` raises."""
        return start_runner(self.name, self.master, self.settings)


def runner_options(command: Command) -> Command:
    """Adds the three options to a command, which receives them as one ``runner: RunnerChoice``. Raises
    SparkSettingMalformed."""

    @wraps(command)
    def with_choice(*args: Any, runner: str, master: str, conf: tuple[str, ...], **options: Any) -> Any:
        return command(*args, runner=RunnerChoice(runner, master, spark_settings(conf)), **options)

    for option in (
        click.option(
            "--conf",
            multiple=True,
            metavar="KEY=VALUE",
            help="Set a setting of Spark, such as spark.executor.memory=4g; repeatable.",
        ),
        click.option(
            "--master",
            metavar="URL",
            default=LOCAL_MASTER,
            help=f"Address of the Spark master [{LOCAL_MASTER}].",
        ),
        click.option(
            "--runner",
            type=click.Choice(RUNNERS),
            default=SPARK,
            help="Run tasks on Spark (the default) or in this process.",
        ),
    ):
        with_choice = option(with_choice)
    return with_choice  # type: ignore[return-value]


def check_runner(name: str) -> None:
    """Refuses a runner whose package or Java is missing, without starting it. Raises ExtraMissing, JavaNotFound."""
    if name == SPARK:
        if find_spec("pyspark") is None:
            raise ExtraMissing("pyspark", "spark")
        find_java()


def start_runner(name: str, master: str = LOCAL_MASTER, conf: Mapping[str, str] | None = None) -> Runner:
    """Starts the runner; Spark takes seconds. Raises SparkNotStarted, ExtraMissing, JavaNotFound."""
    check_runner(name)
    return open_runner(master, conf) if name == SPARK else InProcessRunner()


def spark_settings(assignments: Sequence[str]) -> dict[str, str]:
    """Parses ``spark.KEY=VALUE`` texts. Raises SparkSettingMalformed."""
    settings: dict[str, str] = {}
    for assignment in assignments:
        key, separator, value = assignment.partition("=")
        if not separator or not key.startswith("spark."):
            raise SparkSettingMalformed(f"--conf {assignment}: write spark.some.setting=VALUE")
        settings[key] = value
    return settings
