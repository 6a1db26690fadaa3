"""What the long tests have tried, in numbers, at the end of a run: seeds, kills, frames.

A nightly test that passes says little if nobody knows how much it has tried. So each of them calls ``record_tried``,
and the summary of the run adds up what the tests of one function say, over all parameters and all workers. The numbers
travel with the reports of the tests (``user_properties``), which is how pytest-xdist brings them to the process that
prints the summary.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from typing import Any

import pytest

PROPERTY = "tried"
MARK = "nightly"

RecordTried = Callable[[str, int], None]


def unrecorded(what: str, count: int) -> None:
    """The short form of a long test records nothing."""


class Tried:
    """What the tests of one function have tried: ``counts`` by name, in the order in which they were recorded."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.passed = 0
        self.failed = 0
        self.seconds = 0.0

    def add(self, report: pytest.TestReport) -> None:
        self.passed += report.passed
        self.failed += report.failed
        self.seconds += report.duration
        self.counts.update(counts_of(report.user_properties))

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in self.counts.items())
        failed = f", {self.failed} FAILED" if self.failed else ""
        return f"{counts or 'nothing'} ({self.passed} passed{failed}, {self.seconds:.0f} s)"


def counts_of(user_properties: Iterable[tuple[str, Any]]) -> dict[str, int]:
    return next((counts for name, counts in user_properties if name == PROPERTY), {})


def tried_by_function(reports: Iterable[pytest.TestReport]) -> dict[str, Tried]:
    """Returns what was tried by the id of the function, without parameters: the nightly tests, and those that
    recorded something."""
    found: dict[str, Tried] = {}
    for report in reports:
        if report.when == "call" and (counts_of(report.user_properties) or MARK in report.keywords):
            found.setdefault(report.nodeid.partition("[")[0], Tried()).add(report)
    return found


@pytest.fixture
def record_tried(request: pytest.FixtureRequest) -> RecordTried:
    """Returns a function that notes what the test has tried: ``record_tried("kills", 20)``. Counts of one name are
    added up."""

    counts: dict[str, int] = {}
    request.node.user_properties.append((PROPERTY, counts))

    def record(what: str, count: int) -> None:
        counts[what] = counts.get(what, 0) + count

    return record


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fails a nightly test that has passed and recorded nothing. ``nightly(tried="kills")`` records one, for a test
    that is only too long for the day."""
    mark = item.get_closest_marker(MARK)
    if mark is not None and "tried" in mark.kwargs:
        item.user_properties.append((PROPERTY, {mark.kwargs["tried"]: 1}))
    outcome = yield
    if mark is not None and not counts_of(item.user_properties):
        pytest.fail('a nightly test says what it has tried: record_tried("seeds", 20)', pytrace=False)
    return outcome


def summarize_tried(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [
        report
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        if isinstance(report, pytest.TestReport)
    ]
    found = tried_by_function(reports)
    if not found:
        return
    terminalreporter.section("what was tried")
    for function in sorted(found):
        terminalreporter.write_line(f"{function}: {found[function]}")
