"""Says which findings of a check can be repaired, and gives advice about the others. Pure.

Five repairs exist: orphaned objects that are older than any time limit are deleted, litter of write-ahead logs of that
age and left probes too, and orphaned multipart uploads are aborted. All use space, and the metadata does not name them.
A copy that is missing or damaged, while another copy of the object is right, is taken out of the metadata, so that the
kind of maintenance ``copies`` makes it again. For every other finding there is advice.

Except for copies, nothing is repaired while there is an error in the data, the metadata or a listing: an orphan may
hold the very batches that are missing elsewhere. Nothing is deleted in a bucket that has objects with ids which this
store has not assigned yet: its metadata is then older than the bucket, or the bucket belongs to another store.
"""

from collections.abc import Iterable, Sequence
from enum import Enum

import msgspec

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.checking.findings import CheckReport, Finding, FindingKind, Severity
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS, HOUR_MS, REPAIR_DELETIONS_MAX
from siltstone.model.objects import object_id_of_key

_BACKUP = "restore it from a backup or an earlier version of the bucket, byte for byte under its key"
_GIVE_UP = "if that is impossible, trim the stream past the missing records, or delete the topic"
_METADATA = (
    "the metadata contradict themselves: stop all writers, keep a copy of the metadata and the buckets, and restore"
    " metadata from before the contradiction; a repair would be a guess"
)

ADVICE: dict[FindingKind, str] = {
    FindingKind.METADATA_OLDER: "stop what runs on this copy of the metadata, and restore the newest copy",
    FindingKind.OFFSETS_NOT_COVERED: f"{_METADATA}; {_GIVE_UP}",
    FindingKind.RANGES_OVERLAP: _METADATA,
    FindingKind.RANGE_OF_NO_OBJECT: _METADATA,
    FindingKind.OBJECT_MISSING: f"{_BACKUP}; {_GIVE_UP}",
    FindingKind.OBJECT_DAMAGED: f"{_BACKUP}; its other blocks are undamaged and can be read; {_GIVE_UP}",
    FindingKind.INDEX_CONTRADICTS_IMAGE: (
        "the object under this key is not the one that was committed, but another store's or an older one."
        f" {_BACKUP.capitalize()}; until then maintenance does not touch it"
    ),
    FindingKind.STREAM_MISSING: _METADATA,
    FindingKind.STORE_UNREACHABLE: "make sure that the bucket can be reached and read, then check again",
    FindingKind.TABLE_WRONG: (
        "restore the table, or its missing files, from a copy; or drop it, and export the topic again after"
        " siltstone tables forget TOPIC"
    ),
    FindingKind.TRANSACTION_OPEN: (
        "start the brokers of the store, which end it when its time is over; if they run, siltstone transactions"
        " find-hanging shows whether a coordinator knows it, and siltstone transactions abort ends it"
    ),
    FindingKind.TABLE_NOT_CHECKED: "make sure that the catalog can be reached, then check again",
    FindingKind.ORPHAN_OBJECT: "siltstone check --repair deletes it once it is old enough",
    FindingKind.FOREIGN_KEY: "it is never touched: delete it yourself if no other program needs it",
    FindingKind.ORPHAN_UPLOAD: "siltstone check --repair or the next sweep aborts it",
    FindingKind.OBJECT_PREPARED: "nothing: it is committed, or given up by a sweep after its time limit",
    FindingKind.OBJECT_AWAITS_DELETION: "nothing: a sweep deletes it after its grace period, when no scan holds it",
    FindingKind.UPLOAD_UNDER_WAY: "nothing: it is completed, or aborted by a sweep after its time limit",
    FindingKind.RANGE_NOT_LISTED: _METADATA,
    FindingKind.TOPIC_WITHOUT_STREAM: _METADATA,
    FindingKind.STREAM_OF_TWO_PARTITIONS: _METADATA,
    FindingKind.TOPIC_NAME_ASTRAY: _METADATA,
    FindingKind.MISSING_COPY: "siltstone check --repair has the kind of maintenance copies put it back",
    FindingKind.DAMAGED_COPY: "siltstone check --repair has the kind of maintenance copies put it right",
    FindingKind.TOO_FEW_COPIES: "nothing: the kind of maintenance copies adds them",
    FindingKind.BUCKET_MISMATCH: "give each bucket its own URL in the settings, as its marker says",
    FindingKind.PROBE_LEFT: "siltstone check --repair or the next probe of the bucket deletes it",
    FindingKind.BUCKET_OF_ANOTHER_STORE: "name the right bucket in the settings, or the right metadata",
    FindingKind.WAL_LITTER: "siltstone check --repair deletes it once it is old enough",
    FindingKind.LISTING_DOUBTFUL: "check again; if this stays, ask the operator of the bucket",
}


SOMETHING_IS_WRONG = (
    "not repaired until all errors are dealt with: it may hold the records that are missing elsewhere"
)
METADATA_IS_OLDER = (
    "the bucket holds objects with ids that this store never assigned: the metadata is older than the bucket (was"
    " it restored?), or the bucket is another store's"
)
NAMED_ELSEWHERE = (
    "its id is in use in another bucket: check whether two names in the settings lead to one bucket"
)


class Action(Enum):
    DELETE_OBJECT = "delete object"
    DELETE_WAL_OBJECT = "delete litter of a write-ahead log"
    ABORT_UPLOAD = "abort upload"
    DELETE_PROBE = "delete probe"
    WITHDRAW_COPY = "copy again"


class Repair(msgspec.Struct, frozen=True):
    """One repair to be done. ``size_bytes`` and ``modified_ms`` are those of the listing: an object that has changed
    since is not deleted. ``object_id``: None for an object of a write-ahead log."""

    action: Action
    bucket_id: int
    object_id: int | None
    key: str
    size_bytes: int = 0
    modified_ms: int = 0


class LeftFinding(msgspec.Struct, frozen=True):
    """A finding that is not repaired. ``advice`` says why, or what to do about it."""

    finding: Finding
    advice: str


class RepairPlan(msgspec.Struct, frozen=True):
    repairs: tuple[Repair, ...]
    left: tuple[LeftFinding, ...]

    @property
    def in_one_line(self) -> str:
        deleted = [each for each in self.repairs if each.action in _DELETIONS]
        aborted = sum(each.action is Action.ABORT_UPLOAD for each in self.repairs)
        copies = sum(each.action is Action.WITHDRAW_COPY for each in self.repairs)
        size_bytes = sum(each.size_bytes for each in deleted)
        return (
            f"{counted(len(deleted), 'object')} to be deleted, {size_words(size_bytes)};"
            f" {counted(aborted, 'upload')} to be aborted"
            + (f"; {counted(copies, 'copy', 'copies')} to be made again" if copies else "")
        )


def plan_repair(
    report: CheckReport,
    ids_in_use: Iterable[int],
    now_ms: int,
    *,
    age_ms_min: int = COMPACTION_TIME_LIMIT_MS,
    deletions_max: int = REPAIR_DELETIONS_MAX,
) -> RepairPlan:
    """Plans the repairs of a report. ``ids_in_use`` are all object ids in the image. Objects younger than
    ``age_ms_min``, the longest time limit of an upload, are not deleted: they may belong to an upload that is under
    way (GC11)."""
    refusals = _Refusals(report.findings, frozenset(ids_in_use), now_ms, age_ms_min)
    repairs: list[Repair] = []
    left: list[LeftFinding] = []
    for finding in sorted(report.findings, key=lambda each: each.modified_ms):
        why_not = refusals.of(finding)
        if why_not is None:
            each = _repair(finding)
            if each not in repairs[-1:]:  # a damaged copy has a finding for each damaged block
                repairs.append(each)
        elif why_not:
            left.append(LeftFinding(finding, why_not))
    kept, more = _capped(repairs, deletions_max)
    by_key = {(each.bucket_id, each.key): each for each in report.findings}
    later = f"not in this run: a run deletes at most {deletions_max:,} objects; check its result, and run it again"
    left += (LeftFinding(by_key[each.bucket_id, each.key], later) for each in more)
    return RepairPlan(tuple(kept), tuple(left))


class _Refusals:
    """Why findings are not repaired. ``of`` returns the reason; None when the finding is repaired, and an empty text
    when it needs neither a repair nor advice. A note never needs advice."""

    def __init__(
        self, findings: Sequence[Finding], ids_in_use: frozenset[int], now_ms: int, age_ms_min: int
    ) -> None:
        self._something_is_wrong = any(each.severity is Severity.ERROR for each in findings)
        self._newer_buckets = {each.bucket_id for each in findings if _is_of_an_unknown_id(each)}
        self._ids_in_use = ids_in_use
        self._now_ms = now_ms
        self._age_ms_min = age_ms_min

    def of(self, finding: Finding) -> str | None:
        why_not = self._why_not(finding)
        return "" if why_not and finding.severity is Severity.NOTE else why_not

    def _why_not(self, finding: Finding) -> str | None:
        if finding.kind not in _REPAIRED:
            return METADATA_IS_OLDER if _is_of_an_unknown_id(finding) else ADVICE[finding.kind]
        assert finding.bucket_id is not None
        if finding.kind in _WRONG_COPIES:
            return None
        if self._something_is_wrong:
            return SOMETHING_IS_WRONG
        if finding.bucket_id in self._newer_buckets:
            return METADATA_IS_OLDER
        needs_no_age = finding.kind in (FindingKind.ORPHAN_UPLOAD, FindingKind.PROBE_LEFT)
        return None if needs_no_age else self._of_orphan(finding)

    def _of_orphan(self, finding: Finding) -> str | None:
        if finding.object_id in self._ids_in_use:
            return NAMED_ELSEWHERE
        age_ms = self._now_ms - finding.modified_ms
        if age_ms <= self._age_ms_min:
            hours = self._age_ms_min / HOUR_MS
            return f"it is not older than {hours:g} hours, the longest time an upload may take: check again later"
        return None


_WRONG_COPIES = frozenset({FindingKind.MISSING_COPY, FindingKind.DAMAGED_COPY})
_REPAIRED = (
    frozenset(
        {
            FindingKind.ORPHAN_OBJECT,
            FindingKind.ORPHAN_UPLOAD,
            FindingKind.WAL_LITTER,
            FindingKind.PROBE_LEFT,
        }
    )
    | _WRONG_COPIES
)
_DELETIONS = frozenset({Action.DELETE_OBJECT, Action.DELETE_WAL_OBJECT, Action.DELETE_PROBE})
_ACTIONS = {
    FindingKind.PROBE_LEFT: Action.DELETE_PROBE,
    FindingKind.MISSING_COPY: Action.WITHDRAW_COPY,
    FindingKind.DAMAGED_COPY: Action.WITHDRAW_COPY,
    FindingKind.ORPHAN_OBJECT: Action.DELETE_OBJECT,
    FindingKind.ORPHAN_UPLOAD: Action.ABORT_UPLOAD,
    FindingKind.WAL_LITTER: Action.DELETE_WAL_OBJECT,
}


def _is_of_an_unknown_id(finding: Finding) -> bool:
    """Returns whether the key has the form of this store's keys, with an id that the store has not assigned."""
    return finding.kind is FindingKind.FOREIGN_KEY and object_id_of_key(finding.key or "") is not None


def _repair(finding: Finding) -> Repair:
    assert finding.bucket_id is not None and finding.key is not None
    return Repair(
        action=_ACTIONS[finding.kind],
        bucket_id=finding.bucket_id,
        object_id=finding.object_id,
        key=finding.key,
        size_bytes=finding.size_bytes,
        modified_ms=finding.modified_ms,
    )


def _capped(repairs: Sequence[Repair], deletions_max: int) -> tuple[list[Repair], list[Repair]]:
    """Returns the repairs of this run and those left for the next one. Only deletions are limited; the oldest come
    first."""
    deletions = [each for each in repairs if each.action in _DELETIONS]
    others = [each for each in repairs if each.action not in _DELETIONS]
    return [*deletions[:deletions_max], *others], deletions[deletions_max:]
