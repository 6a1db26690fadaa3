import pytest

from siltstone.maintenance.checking.findings import CheckReport, Finding, FindingKind, Severity
from support.values.left_out import numbers_left_out

NOTES = {
    FindingKind.OBJECT_PREPARED,
    FindingKind.OBJECT_AWAITS_DELETION,
    FindingKind.UPLOAD_UNDER_WAY,
    FindingKind.TABLE_NOT_CHECKED,
    FindingKind.TOO_FEW_COPIES,
    FindingKind.WAL_LITTER,
}
WARNINGS = {
    FindingKind.ORPHAN_OBJECT,
    FindingKind.FOREIGN_KEY,
    FindingKind.ORPHAN_UPLOAD,
    FindingKind.MISSING_COPY,
    FindingKind.DAMAGED_COPY,
    FindingKind.PROBE_LEFT,
    FindingKind.TRANSACTION_OPEN,
}


@pytest.mark.parametrize("kind", FindingKind)
def test_severity_and_whether_the_store_is_clean(kind: FindingKind) -> None:
    """Every kind that is not named here is an error, so a new kind is an error unless it is added here."""
    expected = Severity.NOTE if kind in NOTES else Severity.WARNING if kind in WARNINGS else Severity.ERROR
    finding = Finding(kind, "text")
    assert finding.severity is expected
    note = Finding(FindingKind.OBJECT_PREPARED, "passes by itself")
    assert CheckReport((note, finding), 0, 0, 0, 0).is_clean is (expected is Severity.NOTE)


def test_nothing_found_is_clean() -> None:
    assert CheckReport((), 1, 1, 1, 1).is_clean


def test_no_two_kinds_are_the_same() -> None:
    assert [*FindingKind] == [*range(1, len(FindingKind.__members__) + 1)]


def test_what_is_left_out() -> None:
    assert numbers_left_out(Finding) == {"size_bytes": 0, "modified_ms": 0}


@pytest.mark.parametrize(("severity", "number"), [("NOTE", 1), ("WARNING", 2), ("ERROR", 3)])
def test_severities_grow(severity: str, number: int) -> None:
    assert Severity[severity] == number
