from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.spark import choice
from siltstone.spark.choice import NoSparkContext, runner_on
from siltstone.spark.spark_runner import SparkRunner


def test_without_a_spark_it_is_this_process() -> None:
    assert isinstance(runner_on(None), InProcessRunner)


def test_a_session_is_used_and_left_running() -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(stop=lambda: pytest.fail("stopped")))
    runner = runner_on(session)
    assert isinstance(runner, SparkRunner)
    runner.close()


def test_a_master_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(choice, "open_runner", lambda master: asked.append(master) or InProcessRunner())
    runner_on("local[*]")
    assert asked == ["local[*]"]


def test_a_session_without_a_context_is_refused() -> None:
    connect: Any = SimpleNamespace()
    with pytest.raises(NoSparkContext, match="Spark Connect has none"):
        runner_on(connect)
