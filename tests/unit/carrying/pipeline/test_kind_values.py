"""What a plan and its reports say where a kind says nothing."""

import msgspec
import pytest

from siltstone.carrying.pipeline.kind import (
    NO_JOB,
    Budget,
    Outcome,
    Plan,
    PlannedUnit,
    Scope,
    UnitReport,
    object_name,
)
from siltstone.model.limits import SET_ASIDE_MS_MAX


def test_a_scope_is_everything_and_not_forced() -> None:
    assert Scope() == Scope(topics=None, is_forced=False, up_to=None)


def test_a_budget_is_without_limits_or_has_some() -> None:
    assert Budget() == Budget(bytes_max=None, seconds_max=None)
    assert Budget(bytes_max=1, seconds_max=0.001).bytes_max == 1


def test_a_planned_unit_of_nothing() -> None:
    unit = msgspec.structs.asdict(PlannedUnit(name="u", reason="r"))
    assert unit == {
        "name": "u", "reason": "r", "topic": None, "partition": None, "stream_id": None, "bytes_read": 0,
        "bytes_written": 0, "objects_before": 0, "objects_after": 0, "detail": {}, "outputs": (),
        "set_aside_ms_max": SET_ASIDE_MS_MAX,
    }  # fmt: skip


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_report_of_nothing(outcome: Outcome) -> None:
    report = msgspec.structs.asdict(UnitReport(name="u", outcome=outcome, text="t"))
    assert report == {
        "name": "u", "outcome": outcome, "text": "t", "bytes_read": 0, "bytes_written": 0, "bytes_freed": 0,
        "objects_before": 0, "objects_after": 0, "offsets_trimmed": 0, "records_removed": 0,
        "peak_memory_bytes": 0, "has_remaining": False, "detail": {},
    }  # fmt: skip


def test_a_plan_of_nothing_leaves_nothing_to_do() -> None:
    assert Plan(kind="k") == Plan(kind="k", units=(), unplanned=(), has_remaining=False, work=None)


def test_names_and_ids_that_are_written_down() -> None:
    assert object_name(12) == "object 12"
    assert NO_JOB == 0
