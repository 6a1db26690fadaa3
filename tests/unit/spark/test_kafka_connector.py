"""Fetching the jars of the Kafka connector: once, whole, and only what was tried. Java is stood in for by a script that
answers as Java and as Ivy do; the real ones run in tests/integration/test_quick_start.py."""

import hashlib
from pathlib import Path

import pytest

from siltstone.spark import frames, kafka_connector
from siltstone.spark.ivy import Jar, JarsUnavailable
from siltstone.spark.kafka_connector import kafka_connector_jars
from siltstone.spark.starting import SparkAlreadyRunning

CONTENT = "classes"
UNRESOLVED = "echo ':: UNRESOLVED DEPENDENCIES ::'; echo 'a#b;1: not found'"


class Machine:
    """One whose Java notes its runs, and does what ``script`` says in the folder that it is given."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._trace = folder, folder / "runs"
        self._program = folder / "home" / "bin" / "java"
        self._program.parent.mkdir(parents=True)
        self.serve(CONTENT)
        self.environment = {"JAVA_HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "cache")}

    def serve(self, content: str) -> None:
        self.answer(f"for last; do :; done; printf '{content}' > \"${{last%/*}}/one-1.jar\"")

    def answer(self, script: str) -> None:
        version = 'case "$*" in *-version*) echo \'openjdk version "17.0.15"\' >&2; exit 0;; esac\n'
        self._program.write_text(f"#!/bin/sh\n{version}echo >> {self._trace}\n{script}\n")
        self._program.chmod(0o755)

    @property
    def runs(self) -> int:
        return len(self._trace.read_text()) if self._trace.exists() else 0

    @property
    def cached(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "cache" / "siltstone").iterdir())

    def jars(self) -> tuple[Path, ...]:
        return kafka_connector_jars(self.environment)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    digest = hashlib.sha256(CONTENT.encode()).hexdigest()
    monkeypatch.setattr(kafka_connector, "JARS", {Jar("org", "one", "1"): digest})
    return Machine(tmp_path)


def test_they_are_fetched_once(machine: Machine) -> None:
    assert [jar.read_text() for jar in machine.jars()] == [CONTENT]
    assert machine.jars() == machine.jars()
    assert (machine.runs, machine.cached) == (1, [f"kafka-connector-{kafka_connector.VERSION}"])


def test_a_jar_that_was_changed_since_is_fetched_again(machine: Machine) -> None:
    (jar,) = machine.jars()
    jar.write_text("cut")
    assert [each.read_text() for each in machine.jars()] == [CONTENT]
    assert machine.runs == 2


def test_other_jars_than_those_that_were_tried_are_refused_and_not_kept(machine: Machine) -> None:
    machine.serve("other classes")
    with pytest.raises(JarsUnavailable, match="other jars than the ones that were tried"):
        machine.jars()
    assert machine.cached == []


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (UNRESOLVED, "did not serve the jars: a#b;1: not found"),
        ("echo 'a#b;1: not found'; echo 'Server access error' >&2; exit 1", "jars: Server access error"),
        (
            "echo 'Server access error (PKIX path building failed)'; exit 1",
            "SILTSTONE_JAVA to the home of a Java",
        ),
    ],
)
def test_without_a_repository_the_reason_is_said(machine: Machine, script: str, reason: str) -> None:
    machine.answer(script)
    with pytest.raises(JarsUnavailable, match=reason):
        machine.jars()
    assert machine.cached == []


def test_a_session_gets_them_beside_those_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(frames, "kafka_connector_jars", lambda: (Path("a.jar"), Path("b.jar")))
    monkeypatch.setattr(frames, "active_context", lambda: None)
    monkeypatch.setattr(frames, "start_session", lambda master, settings: asked.append((master, settings)))
    frames.session(kafka=True)
    frames.session("local[1]", {"spark.jars": "mine.jar", "spark.x": "1"}, kafka=True)
    assert asked == [
        ("local[*]", {"spark.jars": "a.jar,b.jar"}),
        ("local[1]", {"spark.jars": "mine.jar,a.jar,b.jar", "spark.x": "1"}),
    ]


def test_a_spark_that_runs_cannot_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "active_context", object)
    with pytest.raises(SparkAlreadyRunning, match="cannot get the Kafka connector"):
        frames.session(kafka=True)
