"""What of a check's findings can be repaired. Pure.

Two things can: orphans that are older than any time limit are deleted, uploads that nobody will complete are aborted.
Both hold space, neither holds anything that the metadata names. All else stays as it is, with advice.

Nothing at all is repaired while anything is wrong with the data, the metadata or a listing: an orphan may hold the very
batches that are missing elsewhere. Nothing is deleted in a bucket that holds objects with ids this store has not given
out yet: then its metadata is older than the bucket, or the bucket is another's.

What to do about each kind of finding, for people: what a repair does by itself, and what it cannot.
"""

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.checking.findings import CheckReport, Finding, FindingKind, Severity
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS, HOUR_MS, REPAIR_DELETIONS_MAX
from siltstone.model.objects import object_id_of_key

_BACKUP = "bring it back from a backup or a former version of the bucket, byte for byte under its key"
_GIVE_UP = "what cannot be brought back is given up by trimming the stream past it, or by deleting its topic"
_METADATA = (
    "the metadata contradicts itself: stop what writes, keep a copy of the metadata and the buckets, and restore the"
    " metadata from before it did; nothing is repaired by guessing"
)

ADVICE: dict[FindingKind, str] = {
    FindingKind.OFFSETS_NOT_COVERED: f"{_METADATA}; {_GIVE_UP}",
    FindingKind.RANGES_OVERLAP: _METADATA,
    FindingKind.RANGE_OF_NO_OBJECT: _METADATA,
    FindingKind.OBJECT_MISSING: f"{_BACKUP}; {_GIVE_UP}",
    FindingKind.OBJECT_DAMAGED: f"{_BACKUP}; its other blocks are whole and are read; {_GIVE_UP}",
    FindingKind.INDEX_CONTRADICTS_IMAGE: (
        "what lies under its key is not what was committed, be it whole: another store's, or an older one's."
        f" {_BACKUP.capitalize()}; until then all maintenance leaves it alone"
    ),
    FindingKind.STREAM_MISSING: _METADATA,
    FindingKind.STORE_UNREACHABLE: "see that the bucket answers and may be read, then check again",
    FindingKind.ORPHAN_OBJECT: "siltstone check --repair deletes it once it is old enough",
    FindingKind.FOREIGN_KEY: "it is never touched: whoever put it there has to say whether it may go",
    FindingKind.ORPHAN_UPLOAD: "siltstone check --repair aborts it, and so does the next sweep",
    FindingKind.OBJECT_PREPARED: "nothing: it is committed, or given up by a sweep after its time limit",
    FindingKind.OBJECT_AWAITS_DELETION: "nothing: a sweep deletes it after its grace period",
    FindingKind.UPLOAD_UNDER_WAY: "nothing: it is completed, or aborted by a sweep after its time limit",
    FindingKind.RANGE_NOT_LISTED: _METADATA,
    FindingKind.TOPIC_WITHOUT_STREAM: _METADATA,
    FindingKind.STREAM_OF_TWO_PARTITIONS: _METADATA,
    FindingKind.TOPIC_NAME_ASTRAY: _METADATA,
    FindingKind.BUCKET_OF_ANOTHER_STORE: "name the right bucket in the settings, or the right metadata",
    FindingKind.LISTING_DOUBTFUL: "check again; if it stays so, ask whoever runs the bucket",
}


SOMETHING_IS_WRONG = (
    "not before everything that is wrong has been dealt with: it may hold what is missing elsewhere"
)
METADATA_IS_OLDER = (
    "the bucket holds objects with ids that were never given out: the metadata is older than the bucket (was it"
    " restored?), or the bucket is another store's"
)
NAMED_ELSEWHERE = (
    "its id is in use in another bucket: see whether two names in the settings lead to one bucket"
)


class Action(Enum):
    DELETE_OBJECT = "delete object"
    ABORT_UPLOAD = "abort upload"


class Repair(msgspec.Struct, frozen=True):
    """``size_bytes`` and ``modified_ms``: what the listing had, so that whatever changed since is left alone."""

    action: Action
    bucket_id: int
    object_id: int
    key: str
    size_bytes: int = 0
    modified_ms: int = 0


class Left(msgspec.Struct, frozen=True):
    """A finding that is not repaired, and why, or what to do about it."""

    finding: Finding
    advice: str


class RepairPlan(msgspec.Struct, frozen=True):
    repairs: tuple[Repair, ...]
    left: tuple[Left, ...]

    @property
    def in_one_line(self) -> str:
        deleted = [each for each in self.repairs if each.action is Action.DELETE_OBJECT]
        aborted = len(self.repairs) - len(deleted)
        size_bytes = sum(each.size_bytes for each in deleted)
        return (
            f"{counted(len(deleted), 'object')} to be deleted, {size_words(size_bytes)};"
            f" {counted(aborted, 'upload')} to be aborted"
        )


def plan_repair(
    report: CheckReport,
    ids_in_use: Iterable[int],
    now_ms: int,
    *,
    age_ms_min: int = COMPACTION_TIME_LIMIT_MS,
    deletions_max: int = REPAIR_DELETIONS_MAX,
) -> RepairPlan:
    """``ids_in_use``: all that the image knows. ``age_ms_min``: the longest time limit an upload may have: what is
    younger may belong to one that is under way (GC11)."""
    refusals = _Refusals(report.findings, frozenset(ids_in_use), now_ms, age_ms_min)
    repairs: list[Repair] = []
    left: list[Left] = []
    for finding in sorted(report.findings, key=lambda each: each.modified_ms):
        why_not = refusals.of(finding)
        if why_not is None:
            repairs.append(_repair(finding))
        elif why_not:
            left.append(Left(finding, why_not))
    kept, more = _capped(repairs, deletions_max)
    by_key = {(each.bucket_id, each.key): each for each in report.findings}
    later = (
        f"not in this run: one deletes at most {deletions_max:,} objects; look what it did, and run it again"
    )
    left += (Left(by_key[each.bucket_id, each.key], later) for each in more)
    return RepairPlan(tuple(kept), tuple(left))


class _Refusals:
    """Why a finding is not repaired: None when it is, empty when there is nothing to be said."""

    def __init__(
        self, findings: Sequence[Finding], ids_in_use: frozenset[int], now_ms: int, age_ms_min: int
    ) -> None:
        self._something_is_wrong = any(each.severity is Severity.ERROR for each in findings)
        self._newer_buckets = {each.bucket_id for each in findings if _is_of_an_unknown_id(each)}
        self._ids_in_use = ids_in_use
        self._now_ms = now_ms
        self._age_ms_min = age_ms_min

    def of(self, finding: Finding) -> str | None:
        if finding.severity is Severity.NOTE:
            return ""
        if finding.kind not in _REPAIRED:
            return METADATA_IS_OLDER if _is_of_an_unknown_id(finding) else ADVICE[finding.kind]
        assert finding.bucket_id is not None and finding.object_id is not None
        if self._something_is_wrong:
            return SOMETHING_IS_WRONG
        if finding.bucket_id in self._newer_buckets:
            return METADATA_IS_OLDER
        return None if finding.kind is FindingKind.ORPHAN_UPLOAD else self._of_orphan(finding)

    def _of_orphan(self, finding: Finding) -> str | None:
        if finding.object_id in self._ids_in_use:
            return NAMED_ELSEWHERE
        age_ms = self._now_ms - finding.modified_ms
        if age_ms <= self._age_ms_min:
            hours = self._age_ms_min / HOUR_MS
            return f"it is not older than {hours:g} hours, the longest time an upload may take: check again later"
        return None


_REPAIRED = frozenset({FindingKind.ORPHAN_OBJECT, FindingKind.ORPHAN_UPLOAD})


def _is_of_an_unknown_id(finding: Finding) -> bool:
    """Its key is of our making, its id is not."""
    is_foreign = finding.kind is FindingKind.FOREIGN_KEY and finding.key is not None
    return is_foreign and object_id_of_key(finding.key or "") is not None


def _repair(finding: Finding) -> Repair:
    assert finding.bucket_id is not None and finding.object_id is not None and finding.key is not None
    is_upload = finding.kind is FindingKind.ORPHAN_UPLOAD
    return Repair(
        action=Action.ABORT_UPLOAD if is_upload else Action.DELETE_OBJECT,
        bucket_id=finding.bucket_id,
        object_id=finding.object_id,
        key=finding.key,
        size_bytes=finding.size_bytes,
        modified_ms=finding.modified_ms,
    )


def _capped(repairs: Sequence[Repair], deletions_max: int) -> tuple[list[Repair], list[Repair]]:
    """The oldest first, as many deletions as one run may do; aborting takes nothing from anybody."""
    deletions = [each for each in repairs if each.action is Action.DELETE_OBJECT]
    others = [each for each in repairs if each.action is not Action.DELETE_OBJECT]
    return [*deletions[:deletions_max], *others], deletions[deletions_max:]
