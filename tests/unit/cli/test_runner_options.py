import click
import pytest
from click.testing import CliRunner

from siltstone.cli import runner_options
from siltstone.cli.failures import ExtraMissing
from siltstone.cli.runner_options import (
    LOCAL_MASTER,
    RunnerChoice,
    SparkSettingMalformed,
    check_runner,
    spark_settings,
    start_runner,
)
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from siltstone.spark.java import JavaNotFound


def test_threads_need_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_options, "find_spec", lambda _: None)
    assert isinstance(start_runner("in-process"), InProcessRunner)


def test_spark_is_opened_as_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def opened(*arguments: object) -> Runner:
        asked.extend(arguments)
        return InProcessRunner()

    monkeypatch.setattr(runner_options, "open_runner", opened)
    start_runner("spark", "spark://host:7077", {"spark.a": "1"})
    assert asked == ["spark://host:7077", {"spark.a": "1"}]
    asked.clear()
    RunnerChoice("spark", "spark://other:7077", {"spark.b": "2"}).start()
    assert asked == ["spark://other:7077", {"spark.b": "2"}]


def test_what_is_missing_is_told_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_options, "find_spec", lambda _: None)
    with pytest.raises(ExtraMissing, match="pyspark"):
        check_runner("spark")
    with pytest.raises(ExtraMissing, match="pyspark"):
        RunnerChoice("spark", LOCAL_MASTER, {}).check()
    check_runner("in-process")
    RunnerChoice("in-process", LOCAL_MASTER, {}).check()


def test_without_java_spark_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise JavaNotFound("Spark needs Java 17 or newer")

    monkeypatch.setattr(runner_options, "find_java", none)
    with pytest.raises(JavaNotFound):
        check_runner("spark")
    check_runner("in-process")


def test_settings_of_spark() -> None:
    assert spark_settings(("spark.a=1", "spark.b=x=y")) == {"spark.a": "1", "spark.b": "x=y"}
    for wrong in ("a=1", "spark.a", ""):
        with pytest.raises(SparkSettingMalformed):
            spark_settings((wrong,))


@pytest.mark.parametrize(
    ("arguments", "choice", "is_spark"),
    [
        ((), RunnerChoice("spark", LOCAL_MASTER, {}), True),
        (("--runner", "in-process"), RunnerChoice("in-process", LOCAL_MASTER, {}), False),
        (
            ("--master", "spark://host:7077", "--conf", "spark.a=1", "--conf", "spark.b=2"),
            RunnerChoice("spark", "spark://host:7077", {"spark.a": "1", "spark.b": "2"}),
            True,
        ),
    ],
)
def test_a_command_is_given_one_choice(
    arguments: tuple[str, ...], choice: RunnerChoice, is_spark: bool
) -> None:
    given: list[object] = []

    @click.command()
    @click.option("--other")
    @runner_options.runner_options
    def command(runner: RunnerChoice, other: str | None) -> None:
        given.extend((runner, other))

    done = CliRunner().invoke(command, [*arguments, "--other", "x"], catch_exceptions=False)
    assert (done.exit_code, given) == (0, [choice, "x"])
    assert choice.is_spark is is_spark
