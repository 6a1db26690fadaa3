"""Makes the report of an erasure: what was asked for, the objects that held records of the keys, and the proof that
none is left. A report names keys by their digests only. Pure.
"""

from datetime import UTC, datetime

import msgspec

from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.store_id import store_id_of
from siltstone.offline.erasures import (
    ErasedObject,
    ErasedRows,
    Erasure,
    erased_objects,
    erased_rows,
    is_open,
)

REPORT_VERSION = 1
COMPLETE = "complete"


class ReportedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that held ``records`` records of the keys. ``replaced`` and ``deleted`` are None while it is in use, or
    while a bucket still has it."""

    object_id: int
    partition: int
    size_bytes: int
    records: int
    buckets: tuple[int, ...]
    found: str
    replaced: str | None
    deleted: str | None


class ReportedTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table of the topic and its dead letters: ``rows`` of the keys were found, in ``files`` files. ``verified`` is
    None until none is left in the table, and ``deleted`` until its older states and their files are gone. What
    ``held_by`` names keeps older states: a tag or a branch."""

    table: str
    rows: int
    files: int
    verified: str | None
    deleted: str | None
    held_by: tuple[str, ...]


class ErasureReport(msgspec.Struct, frozen=True, kw_only=True):
    """``keys`` has the HMAC-SHA-256 of each key under ``salt``, in hexadecimal digits. ``bounds``: records below these
    offsets were concerned, by partition. ``state`` is pending, verified (no object in use has a record of the keys),
    complete (no bucket has an object that held some, either), or "topic deleted" (before it was verified).
    ``leftovers``: objects in the buckets that are not in use, of any topic, and may have held records when the erasure
    was verified. Times are in UTC."""

    siltstone_erasure_report: int = REPORT_VERSION
    erasure: str
    store: str
    topic: str
    topic_id: str
    state: str
    requested: str
    verified: str | None
    objects_looked_at: int
    records_looked_at: int
    bytes_looked_at: int
    salt: str
    keys: tuple[str, ...]
    bounds: tuple[int, ...]
    objects: tuple[ReportedObject, ...]
    leftovers: int
    table: ReportedTable | None
    reported: str

    @property
    def records(self) -> int:
        """Records that were found. One that was copied into another object before it was erased counts for each."""
        return sum(each.records for each in self.objects)

    @property
    def in_buckets(self) -> int:
        """The objects that a bucket still has."""
        return sum(each.deleted is None for each in self.objects)


def report_of(image: MetadataImage, erasure: Erasure, now_ms: int) -> ErasureReport:
    held = erased_objects(image, erasure.erasure_id)
    found = erasure.verification
    return ErasureReport(
        erasure=erasure.erasure_id,
        store=store_id_of(image) or "",
        topic=erasure.topic,
        topic_id=erasure.topic_id,
        state=_state(image, erasure, held),
        requested=time_of(erasure.requested_ms),
        verified=None if found is None else time_of(found.verified_ms),
        objects_looked_at=0 if found is None else found.objects,
        records_looked_at=0 if found is None else found.records,
        bytes_looked_at=0 if found is None else found.bytes_read,
        salt=erasure.salt.hex(),
        keys=tuple(each.digest.hex() for each in erasure.keys),
        bounds=erasure.bounds,
        objects=tuple(_reported(each) for each in held),
        leftovers=erasure.leftovers,
        table=_reported_table(erasure, erased_rows(image, erasure.erasure_id)),
        reported=time_of(now_ms),
    )


def _state(image: MetadataImage, erasure: Erasure, held: list[ErasedObject]) -> str:
    if is_open(image, erasure):
        return "pending" if erasure.topic_id in image.topics else "topic deleted"
    assert not any(committed_object(image, each.object_id) for each in held)
    rows = erased_rows(image, erasure.erasure_id)
    are_rows_gone = not erasure.has_table or (rows is not None and bool(rows.deleted_ms))
    are_gone = erasure.cleared_ms and all(each.deleted_ms for each in held) and are_rows_gone
    return COMPLETE if are_gone else "verified"


def _reported_table(erasure: Erasure, rows: ErasedRows | None) -> ReportedTable | None:
    if not erasure.has_table or rows is None:
        return None
    return ReportedTable(
        table=rows.table,
        rows=rows.rows,
        files=rows.files,
        verified=time_of(rows.verified_ms) if rows.verified_ms else None,
        deleted=time_of(rows.deleted_ms) if rows.deleted_ms else None,
        held_by=rows.held_by,
    )


def _reported(held: ErasedObject) -> ReportedObject:
    return ReportedObject(
        object_id=held.object_id,
        partition=held.partition,
        size_bytes=held.size_bytes,
        records=held.records,
        buckets=held.bucket_ids,
        found=time_of(held.found_ms),
        replaced=time_of(held.replaced_ms) if held.replaced_ms else None,
        deleted=time_of(held.deleted_ms) if held.deleted_ms else None,
    )


def time_of(ms: int) -> str:
    """Returns a time as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
