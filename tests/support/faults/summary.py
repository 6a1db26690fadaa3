"""Says in the summary of a test run which faults it has tried: the rows are drawn, so nobody knows them by heart."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

TRIED = "fault tried"
"""The property under which a test notes the row that it plays."""

OUTCOMES = {
    "passed": "as wanted",
    "failed": "NOT as wanted",
    "xfailed": "not as wanted, which is known",
    "skipped": "skipped",
}


def faults_tried(stats: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Returns a line for each outcome, from the reports of a run by outcome, as pytest's terminal reporter keeps
    them."""
    for outcome, said in OUTCOMES.items():
        rows = [
            str(value)
            for report in stats.get(outcome, ())
            for name, value in getattr(report, "user_properties", ())
            if name == TRIED
        ]
        if rows:
            yield f"faults tried, {said}: {', '.join(sorted(rows))}"
