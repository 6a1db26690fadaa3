"""Writes the table of the suites into ``docs/conformance.md``, between marks of its own. Rows of suites that were not
asked for stay as they are."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.suites.known import BY_ID, KNOWN
from conformance.suites.suite import Suite, SuiteOutcome

BEGIN, END = "<!-- begin: written by make conformance, suites -->", "<!-- end of the suites -->"
HEAD = ("| suite | its tests | commit | passed | not passed |", "| --- | --- | --- | --- | --- |")


def write_suites(outcomes: Sequence[SuiteOutcome], page: Path) -> None:
    before, _, rest = page.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {" | ".join(line.split(" | ")[:2]): line for line in table.splitlines() if line.startswith("| ")}
    rows |= rows_of(outcomes)
    found = (rows.get(_first_cells(suite)) for suite in KNOWN)
    lines = [*HEAD, *(row for row in found if row is not None)]
    page.write_text(f"{before}{BEGIN}\n\n{chr(10).join(lines)}\n\n{END}{after}")


def rows_of(outcomes: Sequence[SuiteOutcome]) -> Mapping[str, str]:
    """Returns the row of each suite by its first two cells."""
    rows: dict[str, str] = {}
    for outcome in outcomes:
        suite = BY_ID[outcome.suite]
        cells = ["not run", outcome.missing] if outcome.missing else [str(outcome.passed), _failures(outcome)]
        first = _first_cells(suite)
        rows[first] = f"{first} | {outcome.commit} | {' | '.join(cells)} |"
    return rows


def _first_cells(suite: Suite) -> str:
    return f"| {suite.title} | {suite.tests}"


def _failures(outcome: SuiteOutcome) -> str:
    """Returns the tests that did not pass, with the reason where it is known, and 0 if all have."""
    texts = []
    for name in outcome.failures:
        reason = BY_ID[outcome.suite].as_expected.get(name)
        texts.append(f"{name}: {reason}" if reason else f"FAILS: {name}")
    return "; ".join(texts) or "0"
