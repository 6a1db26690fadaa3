"""Fetching Java archives: once, whole, and only what is noted. Ivy is stood in for; real fetches are in other tests."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oracles import java_artifacts
from oracles.java_artifacts import (
    APACHE_KAFKA,
    ArtifactSet,
    Jar,
    JavaArtifactsDiffer,
    JavaArtifactsUnavailable,
    fetch_jars,
)
from oracles.java_tools import CLASSES

ONE_JAR = ArtifactSet("one", "1", (Jar("org", "one", "1"),))


class Ivy:
    """Puts one jar into the folder it is given."""

    def __init__(self) -> None:
        self.content = b"classes"
        self.runs = 0
        self._lock = threading.Lock()

    def __call__(self, recipe: str, target: Path) -> None:
        with self._lock:
            self.runs += 1
        assert 'name="one" rev="1"' in recipe
        (target / "ivy.xml").write_text(recipe)
        (target / "one-1.jar").write_bytes(self.content)


@pytest.fixture
def ivy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ivy:
    made = Ivy()
    checksums = tmp_path / "checksums.txt"
    checksums.write_text(f"{hashlib.sha256(made.content).hexdigest()} one-1.jar\n")
    monkeypatch.setattr(java_artifacts, "JARS", tmp_path / "java")
    monkeypatch.setattr(java_artifacts, "CHECKSUMS", checksums)
    monkeypatch.setattr(java_artifacts, "_run_ivy", made)
    return made


def test_they_are_fetched_once_whoever_asks_at_the_same_time(ivy: Ivy) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: fetch_jars(ONE_JAR), range(4)))
    assert ivy.runs == 1
    assert {answer[0].read_bytes() for answer in answers} == {ivy.content}


def test_a_jar_that_differs_from_what_is_noted_is_refused_and_not_kept(ivy: Ivy) -> None:
    ivy.content = b"other classes"
    with pytest.raises(JavaArtifactsDiffer, match=r"one-1\.jar"):
        fetch_jars(ONE_JAR)
    assert not ONE_JAR.folder.exists()
    assert list(java_artifacts.JARS.glob("filling-*")) == []


def test_another_list_of_modules_is_fetched_anew(ivy: Ivy) -> None:
    fetch_jars(ONE_JAR)
    fetch_jars(ArtifactSet("one", "1", (*ONE_JAR.modules, Jar("org", "two", "1"))))
    assert ivy.runs == 2


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo ':: UNRESOLVED DEPENDENCIES ::'; echo 'a#b;1: not found'", "a#b;1: not found"),
        ("echo 'Server access error' >&2; exit 1", "Server access error"),
    ],
)
def test_without_a_repository_they_are_unavailable_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, reason: str
) -> None:
    java = tmp_path / "java-program"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setattr(java_artifacts, "JARS", tmp_path / "java")
    monkeypatch.setattr(java_artifacts, "java_program", lambda: java)
    with pytest.raises(JavaArtifactsUnavailable, match=reason):
        fetch_jars(ONE_JAR)


@pytest.mark.kafka
def test_every_tool_has_its_class() -> None:
    import zipfile

    try:
        jars = fetch_jars(APACHE_KAFKA)
    except JavaArtifactsUnavailable as reason:
        pytest.skip(str(reason))
    classes = {name for jar in jars for name in zipfile.ZipFile(jar).namelist() if "kafka" in name}
    assert [tool for tool, name in CLASSES.items() if f"{name.replace('.', '/')}.class" not in classes] == []
