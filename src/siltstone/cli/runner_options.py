"""``--runner``, ``--master`` and ``--conf``: what runs the tasks of maintenance, Spark or threads of this process."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib.util import find_spec
from typing import Any, TypeVar

import click
import msgspec

from siltstone.cli.failures import ExtraMissing
from siltstone.maintenance.tasks.runner import InProcessRunner, Runner
from siltstone.model.errors import InvalidRequest
from siltstone.spark.java import find_java
from siltstone.spark.spark_runner import open_runner

SPARK = "spark"
IN_PROCESS = "in-process"
RUNNERS = (SPARK, IN_PROCESS)
LOCAL_MASTER = "local[*]"


Command = TypeVar("Command", bound=Callable[..., Any])


class SparkSettingMalformed(InvalidRequest):
    """A --conf is not KEY=VALUE."""


class RunnerChoice(msgspec.Struct, frozen=True):
    """What the options of a command say. Raises SparkSettingMalformed when it is made from malformed ``conf``."""

    name: str
    master: str
    settings: dict[str, str]

    @property
    def is_spark(self) -> bool:
        return self.name == SPARK

    def check(self) -> None:
        """As ``check_runner``."""
        check_runner(self.name)

    def start(self) -> Runner:
        """As ``start_runner``."""
        return start_runner(self.name, self.master, self.settings)


def runner_options(command: Command) -> Command:
    """Adds the three options to a command, which is called with ``runner: RunnerChoice`` in their place."""

    @wraps(command)
    def with_choice(*args: Any, runner: str, master: str, conf: tuple[str, ...], **options: Any) -> Any:
        return command(*args, runner=RunnerChoice(runner, master, spark_settings(conf)), **options)

    for option in (
        click.option(
            "--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's own; repeatable."
        ),
        click.option(
            "--master", metavar="URL", default=LOCAL_MASTER, help=f"The Spark master [{LOCAL_MASTER}]."
        ),
        click.option(
            "--runner",
            type=click.Choice(RUNNERS),
            default=SPARK,
            help="What runs the tasks: Spark (the default), or this process.",
        ),
    ):
        with_choice = option(with_choice)
    return with_choice  # type: ignore[return-value]


def check_runner(name: str) -> None:
    """Whether the runner can be started, as far as that can be known at once. Raises ExtraMissing, JavaNotFound."""
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
