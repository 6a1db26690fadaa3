"""A suite of tests that others have written for their client, as a value, and what its run gave."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from conformance.secured import Grounds


class Prepared(msgspec.Struct, frozen=True):
    """How a copy of the sources is run. ``folder``: where."""

    folder: Path
    command: tuple[str, ...]
    environment: Mapping[str, str] = {}


class SuiteMissing(Exception):
    """Something that the suite needs is not on this machine; the text says what."""


class Suite(msgspec.Struct, frozen=True):
    """``repository``: owner and name. ``tests``: which of its tests are run. ``prepare(copy, address)`` raises
    SuiteMissing. ``passed`` and ``failed`` find the names, or the numbers, of tests in the output. ``as_expected`` has
    the tests that fail at Apache Kafka in the same way, and why."""

    id: str
    title: str
    repository: str
    tests: str
    prepare: Callable[[Path, str], Prepared]
    passed: re.Pattern[str]
    failed: re.Pattern[str]
    settings: Mapping[str, str] = {}
    as_expected: Mapping[str, str] = {}
    seconds_max: int = 900
    secure: Callable[[Path, str, Grounds], Prepared] | None = None
    """Takes the place of ``prepare`` where the broker has TLS, logins and rights."""
    clone_id: str = ""

    @property
    def clone(self) -> str:
        """The name of the folder with its clone; some suites share one."""
        return self.clone_id or self.id


class SuiteOutcome(msgspec.Struct, frozen=True):
    """``missing`` says why the suite was not run; empty if it was. ``failures``: names of tests, or their number."""

    suite: str
    commit: str = ""
    passed: int = 0
    failures: tuple[str, ...] = ()
    missing: str = ""
    seconds: float = 0.0


def counted(pattern: re.Pattern[str], output: str) -> tuple[str, ...]:
    """Returns what the pattern finds: names, or as many empty texts as a number says."""
    found: list[str] = []
    for each in pattern.findall(output):
        found += [""] * int(each) if each.isdigit() else [each]
    return tuple(found)
