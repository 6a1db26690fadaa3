import pytest

from siltstone.cli.compacting import runners
from siltstone.cli.compacting.runners import SparkSettingMalformed, check_runner, spark_settings, start_runner
from siltstone.cli.failures import ExtraMissing
from siltstone.maintenance.in_process_runner import InProcessRunner
from siltstone.maintenance.runner import Runner


def test_threads_need_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "find_spec", lambda _: None)
    assert isinstance(start_runner("in-process"), InProcessRunner)


def test_spark_is_opened_as_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def opened(*arguments: object) -> Runner:
        asked.extend(arguments)
        return InProcessRunner()

    monkeypatch.setattr(runners, "open_runner", opened)
    start_runner("spark", "spark://host:7077", {"spark.a": "1"})
    assert asked == ["spark://host:7077", {"spark.a": "1"}]


def test_what_is_missing_is_told_before_anything_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners, "find_spec", lambda _: None)
    with pytest.raises(ExtraMissing, match="pyspark"):
        check_runner("spark")
    check_runner("in-process")


def test_settings_of_spark() -> None:
    assert spark_settings(("spark.a=1", "spark.b=x=y")) == {"spark.a": "1", "spark.b": "x=y"}
    for wrong in ("a=1", "spark.a", ""):
        with pytest.raises(SparkSettingMalformed):
            spark_settings((wrong,))
