"""Starting Spark when it does not start. That it does is shown by tests/spark."""

import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from siltstone.spark import starting
from siltstone.spark.starting import (
    SparkAlreadyRunning,
    SparkNotStarted,
    active_context,
    jvm_has_died,
    start_context,
)

PROGRAM = """
import os
from siltstone.model.errors import Unavailable
from siltstone.spark.starting import SparkNotStarted, start_context
before = dict(os.environ)
try:
    start_context("local[1]")
except SparkNotStarted as failure:
    assert isinstance(failure, Unavailable)
    print(failure)
assert dict(os.environ) == before
"""

JAVA_THAT_ONLY_TELLS_ITS_VERSION = """#!/bin/sh
echo 'openjdk version "17.0.1"' >&2
[ "$2" = -version ] || { echo 'no room for a heap' >&2; exit 1; }
"""


def test_a_jvm_that_does_not_come_up_is_told_in_one_line(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(JAVA_THAT_ONLY_TELLS_ITS_VERSION)
    java.chmod(0o755)
    environment = {**os.environ, "SILTSTONE_JAVA": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert line.startswith("Spark did not start: ")
    assert "last line of its log: no room for a heap" in line
    assert list(tmp_path.glob("siltstone-spark-*.log")) == []


def test_a_master_that_nobody_answers_for_is_refused_before_spark_is_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark itself would try for a minute."""
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(starting, "_start", lambda _, **__: pytest.fail("Spark was started"))
    monkeypatch.setattr(starting, "find_java", lambda: SimpleNamespace(home=""))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(SparkNotStarted, match=str(port)):
        start_context(f"spark://127.0.0.1:{port}")


def test_a_spark_that_runs_already_is_found_and_no_other_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    running: Any = SimpleNamespace()
    monkeypatch.setattr(starting, "find_java", lambda: pytest.fail("a Java was looked for"))
    monkeypatch.setattr(SparkContext, "_active_spark_context", running)
    assert active_context() is running
    with pytest.raises(SparkAlreadyRunning, match="use its context"):
        start_context("local[1]")


@pytest.mark.parametrize(
    ("gateway", "has_died"),
    [
        pytest.param(None, False, id="never started"),
        pytest.param(SimpleNamespace(), False, id="started by someone else"),
        pytest.param(SimpleNamespace(proc=SimpleNamespace(poll=lambda: None)), False, id="runs"),
        pytest.param(SimpleNamespace(proc=SimpleNamespace(poll=lambda: 0)), True, id="has ended"),
        pytest.param(SimpleNamespace(proc=SimpleNamespace(poll=lambda: -9)), True, id="was killed"),
    ],
)
def test_a_jvm_has_died_when_its_process_has_ended(
    monkeypatch: pytest.MonkeyPatch, gateway: Any, has_died: bool
) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    assert jvm_has_died() is has_died


@pytest.mark.parametrize(("master", "address"), [("local[1]", "127.0.0.1"), ("yarn", "before")])
def test_the_environment_is_set_for_the_start_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: str, address: str
) -> None:
    seen: dict[str, str] = {}

    def started(settings: dict[str, str], *, shows_stdout: bool) -> Any:
        seen.update(os.environ, master=settings["spark.master"])
        return "a context"

    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(starting, "find_java", lambda: SimpleNamespace(home=tmp_path))
    monkeypatch.setattr(starting, "_start", started)
    monkeypatch.setenv("SPARK_LOCAL_IP", "before")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    before = dict(os.environ)
    assert start_context(master) == "a context"
    assert (seen["JAVA_HOME"], seen["PYSPARK_PYTHON"]) == (str(tmp_path), sys.executable)
    assert (seen["SPARK_LOCAL_IP"], seen["master"]) == (address, starting.with_retries(master))
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("lines", "last"),
    [
        (
            ["no room for a heap", "  at java.lang.Thread", "", "spark-class: line 7: killed"],
            "no room for a heap",
        ),
        (["first", " second "], "second"),
        (["at a", ""], "none"),
        ([], "none"),
    ],
)
def test_the_last_words_are_those_of_a_person(tmp_path: Path, lines: list[str], last: str) -> None:
    log = tmp_path / "log"
    log.write_text("\n".join(lines))
    assert starting._last_words(log) == last


def test_executors_import_the_package_from_its_folder_unless_it_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path(starting.__file__).parents[2]
    monkeypatch.setattr(starting.sysconfig, "get_path", lambda _: "/elsewhere")
    assert starting.source_folder() == str(folder)
    assert starting.settings_for("yarn", "a", {})["spark.executorEnv.PYTHONPATH"] == str(folder)
    monkeypatch.setattr(starting.sysconfig, "get_path", lambda _: str(folder))
    assert starting.source_folder() is None
    assert "spark.executorEnv.PYTHONPATH" not in starting.settings_for("yarn", "a", {})


@pytest.mark.parametrize("jvm_runs", [None, True, False], ids=["the first", "again", "after the JVM died"])
def test_a_context_has_the_settings_and_the_jvm_that_runs_or_a_new_one(
    jvm_runs: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old: Any = (
        None if jvm_runs is None else SimpleNamespace(proc=SimpleNamespace(poll=lambda: jvm_runs or -9))
    )
    if jvm_runs:
        old.proc.poll = lambda: None
    launched: list[Any] = []

    class FakeConf:
        def __init__(self, loadDefaults: bool) -> None:  # noqa: N803 -- pyspark's name
            assert not loadDefaults, "settings of the machine have no part in it"
            self.settings: dict[str, str] = {}
            self.set = self.settings.__setitem__

    class FakeContext:
        _gateway, _jvm = old, old

        def __init__(self, gateway: Any, conf: Any) -> None:
            self.gateway, self.settings = gateway, conf.settings

    def launch(*_: object, shows_stdout: bool) -> str:
        assert shows_stdout
        launched.append((FakeContext._gateway, FakeContext._jvm))
        return "a new gateway"

    monkeypatch.setattr("pyspark.SparkConf", FakeConf)
    monkeypatch.setattr("pyspark.SparkContext", FakeContext)
    monkeypatch.setattr(starting, "_launch_jvm", launch)
    context: Any = starting._start({"spark.master": "local[1]", "spark.mine": "1"}, shows_stdout=True)
    assert context.settings == {"spark.master": "local[1]", "spark.mine": "1"}
    assert context.gateway == (old if jvm_runs else "a new gateway")
    assert launched == ([] if jvm_runs else [(None, None)])


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "find_spec", lambda _: None)
    with pytest.raises(starting.SparkMissing, match=r"siltstone\[spark\]"):
        start_context()
