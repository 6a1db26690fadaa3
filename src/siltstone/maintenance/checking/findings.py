"""Defines the findings of a check: their kinds, their severities, and the report that holds them."""

from enum import IntEnum

import msgspec


class Severity(IntEnum):
    """ERROR: data is missing, damaged, or contradicts the metadata. WARNING: space is used by objects or uploads that
    the metadata does not name, one copy of an object is wrong and another one is right, or readers are held back. NOTE:
    an ordinary state that needs nobody: it ends by itself, or costs only the space of what an ended node left."""

    NOTE = 1
    WARNING = 2
    ERROR = 3


class FindingKind(IntEnum):
    OFFSETS_NOT_COVERED = 1
    RANGES_OVERLAP = 2
    RANGE_OF_NO_OBJECT = 3
    OBJECT_MISSING = 4
    OBJECT_DAMAGED = 5
    INDEX_CONTRADICTS_IMAGE = 6
    STREAM_MISSING = 7
    STORE_UNREACHABLE = 8
    ORPHAN_OBJECT = 9
    FOREIGN_KEY = 10
    ORPHAN_UPLOAD = 11
    OBJECT_PREPARED = 12
    OBJECT_AWAITS_DELETION = 13
    UPLOAD_UNDER_WAY = 14
    RANGE_NOT_LISTED = 15
    TOPIC_WITHOUT_STREAM = 16
    STREAM_OF_TWO_PARTITIONS = 17
    TOPIC_NAME_ASTRAY = 18
    BUCKET_OF_ANOTHER_STORE = 19
    LISTING_DOUBTFUL = 20
    METADATA_OLDER = 21
    WAL_LITTER = 22
    TABLE_WRONG = 23
    TABLE_NOT_CHECKED = 24
    MISSING_COPY = 25
    DAMAGED_COPY = 26
    BUCKET_MISMATCH = 27
    PROBE_LEFT = 28
    TOO_FEW_COPIES = 29
    TRANSACTION_OPEN = 30


_SEVERITIES = {
    FindingKind.ORPHAN_OBJECT: Severity.WARNING,
    FindingKind.FOREIGN_KEY: Severity.WARNING,
    FindingKind.ORPHAN_UPLOAD: Severity.WARNING,
    FindingKind.MISSING_COPY: Severity.WARNING,
    FindingKind.DAMAGED_COPY: Severity.WARNING,
    FindingKind.PROBE_LEFT: Severity.WARNING,
    FindingKind.TRANSACTION_OPEN: Severity.WARNING,
    FindingKind.OBJECT_PREPARED: Severity.NOTE,
    FindingKind.OBJECT_AWAITS_DELETION: Severity.NOTE,
    FindingKind.UPLOAD_UNDER_WAY: Severity.NOTE,
    FindingKind.TABLE_NOT_CHECKED: Severity.NOTE,
    FindingKind.TOO_FEW_COPIES: Severity.NOTE,
    FindingKind.WAL_LITTER: Severity.NOTE,
}


class Finding(msgspec.Struct, frozen=True):
    """One thing that a check found. ``text`` is one line for people; the ids are for programs, None where they do not
    apply. ``modified_ms`` is the time of the object in the bucket's listing."""

    kind: FindingKind
    text: str
    stream_id: int | None = None
    object_id: int | None = None
    key: str | None = None
    size_bytes: int = 0
    bucket_id: int | None = None
    modified_ms: int = 0

    @property
    def severity(self) -> Severity:
        return _SEVERITIES.get(self.kind, Severity.ERROR)


class CheckReport(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...]
    streams_checked: int
    objects_checked: int
    blocks_checked: int
    bytes_read: int
    objects_not_checked: int = 0
    """Objects whose bucket did not answer."""

    @property
    def is_clean(self) -> bool:
        """Whether there is no error and no warning."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)

    @property
    def is_only_incomplete(self) -> bool:
        """Whether a bucket did not answer, and nothing else is wrong."""
        serious = {each.kind for each in self.findings if each.severity is not Severity.NOTE}
        return serious == {FindingKind.STORE_UNREACHABLE}
