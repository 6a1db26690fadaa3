"""GC11 and what must hold before anything is deleted. Pure."""

import pytest

from siltstone.maintenance.checking.findings import CheckReport, Finding, FindingKind, Severity
from siltstone.maintenance.checking.repair_plan import (
    METADATA_IS_OLDER,
    NAMED_ELSEWHERE,
    SOMETHING_IS_WRONG,
    Action,
    Repair,
    RepairPlan,
    plan_repair,
)
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS, HOUR_MS
from siltstone.model.objects import object_key
from support.values.left_out import numbers_left_out

K = FindingKind
NOW_MS = 1_700_000_000_000
OLD_MS = NOW_MS - COMPACTION_TIME_LIMIT_MS - 1


def orphan(object_id: int, modified_ms: int = OLD_MS, bucket_id: int = 0) -> Finding:
    key = object_key(object_id)
    return Finding(K.ORPHAN_OBJECT, "orphan", None, object_id, key, 100, bucket_id, modified_ms)


def upload(object_id: int) -> Finding:
    return Finding(K.ORPHAN_UPLOAD, "upload", None, object_id, object_key(object_id), 0, 0)


def foreign(key: str, bucket_id: int = 0) -> Finding:
    return Finding(K.FOREIGN_KEY, "foreign", None, None, key, 5, bucket_id, OLD_MS)


def plan(*findings: Finding, in_use: tuple[int, ...] = (), **more: int) -> RepairPlan:
    return plan_repair(CheckReport(findings, 0, 0, 0, 0), in_use, NOW_MS, **more)


def deleted(made: RepairPlan) -> list[int]:
    return [each.object_id for each in made.repairs if each.action is Action.DELETE_OBJECT]


def test_nothing_found_nothing_to_do() -> None:
    assert plan() == RepairPlan((), ())
    assert plan().in_one_line == "0 objects to be deleted, 0 B; 0 uploads to be aborted"


@pytest.mark.parametrize(
    ("age_ms", "goes"),
    [(COMPACTION_TIME_LIMIT_MS + 1, True), (COMPACTION_TIME_LIMIT_MS, False), (0, False), (-HOUR_MS, False)],
)
def test_gc11_only_what_is_older_than_the_longest_time_limit(age_ms: int, goes: bool) -> None:
    made = plan(orphan(7, NOW_MS - age_ms))
    assert deleted(made) == ([7] if goes else [])
    assert [each.advice for each in made.left] == (
        []
        if goes
        else ["it is not older than 24 hours, the longest time an upload may take: check again later"]
    )


def test_gc11_a_longer_time_limit_counts() -> None:
    assert deleted(plan(orphan(7), age_ms_min=2 * COMPACTION_TIME_LIMIT_MS)) == []
    assert deleted(plan(orphan(7), age_ms_min=HOUR_MS)) == [7]


def test_forsaken_uploads_are_aborted_whatever_their_age() -> None:
    made = plan(upload(3), orphan(4))
    assert [(each.action, each.object_id) for each in made.repairs] == [
        (Action.DELETE_OBJECT, 4),
        (Action.ABORT_UPLOAD, 3),
    ]
    assert made.in_one_line == "1 object to be deleted, 100 B; 1 upload to be aborted"


@pytest.mark.parametrize(
    "kind", [kind for kind in FindingKind if Finding(kind, "").severity is Severity.ERROR]
)
def test_nothing_is_repaired_while_anything_is_wrong(kind: FindingKind) -> None:
    """An orphan may hold what is missing elsewhere; a listing or metadata in doubt proves nothing."""
    made = plan(orphan(1), upload(2), Finding(kind, "wrong", bucket_id=1))
    assert made.repairs == ()
    assert {each.advice for each in made.left if each.finding.kind is not kind} == {SOMETHING_IS_WRONG}
    assert len(made.left) == 3


def test_metadata_that_is_older_than_a_bucket_deletes_nothing_there() -> None:
    made = plan(orphan(1), foreign(object_key(900)), orphan(2, bucket_id=1))
    assert deleted(made) == [2]
    assert [each.advice for each in made.left] == [METADATA_IS_OLDER] * 2


def test_what_others_put_there_hinders_nothing_and_is_left() -> None:
    made = plan(orphan(1), foreign("some/file"))
    assert deleted(made) == [1]
    (left,) = made.left
    assert "never touched" in left.advice


def test_an_id_that_is_in_use_elsewhere_is_left() -> None:
    """Two names may lead to one bucket: then the copy is the object."""
    made = plan(orphan(1), in_use=(1,))
    assert deleted(made) == []
    assert [each.advice for each in made.left] == [NAMED_ELSEWHERE]


def test_the_oldest_first_and_no_more_than_one_run_may() -> None:
    findings = [orphan(at, OLD_MS - at) for at in range(10)]
    made = plan(*findings, upload(50), deletions_max=3)
    assert deleted(made) == [9, 8, 7]
    assert len(made.repairs) == 4
    assert len(made.left) == 7 and all("at most 3 objects" in each.advice for each in made.left)


def test_notes_pass_by_themselves() -> None:
    note = Finding(K.OBJECT_AWAITS_DELETION, "waits", None, 1, object_key(1), 5, 0, OLD_MS)
    assert plan(note, orphan(2)) == plan(orphan(2))


def test_what_is_left_out() -> None:
    assert numbers_left_out(Repair) == {"size_bytes": 0, "modified_ms": 0}
