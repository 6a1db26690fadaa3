"""Checks whether an object is in its bucket as it was written, and holds the ranges that the image says.

The index may hold more than the image names, since blocks that were dead at the commit are left out of it, but never
less.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.model.limits import READ_REQUEST_BYTES_MAX
from siltstone.model.objects import ObjectRange, object_key
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.batch_frame import decode_frames
from siltstone.object_formats.block_index import BlockIndex, DamagedBlock, verify_block
from siltstone.object_store.buckets import read_index
from siltstone.object_store.port import ObjectNotFound, ObjectStore


class ObjectCheck(msgspec.Struct, frozen=True):
    findings: tuple[Finding, ...]
    blocks_checked: int = 0
    bytes_read: int = 0


def check_object(
    store: ObjectStore,
    metadata: ObjectMetadata,
    *,
    read_blocks: bool,
    bucket_id: int | None = None,
    request_bytes_max: int = READ_REQUEST_BYTES_MAX,
) -> ObjectCheck:
    """Checks the object in its first bucket, or in the one given. Blocks that lie side by side are read together, up to
    ``request_bytes_max``."""
    checked = _check_object(store, metadata, request_bytes_max if read_blocks else 0)
    if bucket_id in (None, metadata.bucket_id):
        return checked
    return replace(checked, findings=tuple(replace(each, bucket_id=bucket_id) for each in checked.findings))


COPY_WRONG = {
    FindingKind.OBJECT_MISSING: FindingKind.MISSING_COPY,
    FindingKind.OBJECT_DAMAGED: FindingKind.DAMAGED_COPY,
    FindingKind.INDEX_CONTRADICTS_IMAGE: FindingKind.DAMAGED_COPY,
}


def judge_copies(checks: Sequence[ObjectCheck]) -> ObjectCheck:
    """Judges an object by the checks of all its copies. If one copy is right, damage of another copy is a warning."""
    blocks_checked = sum(each.blocks_checked for each in checks)
    bytes_read = sum(each.bytes_read for each in checks)
    findings = tuple(finding for each in checks for finding in each.findings)
    if any(not each.findings for each in checks):
        findings = tuple(_of_copy(finding) for finding in findings)
    return ObjectCheck(findings, blocks_checked, bytes_read)


def _of_copy(finding: Finding) -> Finding:
    kind = COPY_WRONG.get(finding.kind)
    if kind is None:
        return finding
    text = f"{finding.text}, in bucket {finding.bucket_id}; another copy of it is undamaged"
    return replace(finding, kind=kind, text=text)


def _check_object(store: ObjectStore, metadata: ObjectMetadata, request_bytes_max: int) -> ObjectCheck:
    """With 0 as ``request_bytes_max`` no block is read."""
    key = object_key(metadata.object_id)
    try:
        stored_bytes = store.head(key).size_bytes
        if stored_bytes != metadata.size_bytes:
            text = f"has {stored_bytes} bytes, was committed with {metadata.size_bytes}"
            return _failed(FindingKind.OBJECT_DAMAGED, metadata, text)
        index = read_index(store, key, metadata.size_bytes)
        contradictions = tuple(_contradictions(index, metadata))
        if not request_bytes_max:
            return ObjectCheck(contradictions)
        return _check_blocks(store, metadata, index, contradictions, request_bytes_max)
    except ObjectNotFound:
        return _failed(FindingKind.OBJECT_MISSING, metadata, "is not in its bucket")
    except CorruptData as damage:
        return _failed(FindingKind.OBJECT_DAMAGED, metadata, str(damage))
    except SiltstoneError as trouble:
        # Unavailable, or access denied: objects in other buckets are checked all the same.
        return _failed(FindingKind.STORE_UNREACHABLE, metadata, str(trouble))


def _contradictions(index: BlockIndex, metadata: ObjectMetadata) -> Iterator[Finding]:
    for held in metadata.ranges:
        blocks = list(index.blocks_of(held.stream_id, held.start_offset, held.end_offset))
        if not _cover_exactly(blocks, held):
            yield _finding(
                FindingKind.INDEX_CONTRADICTS_IMAGE,
                metadata,
                f"its index does not hold [{held.start_offset}, {held.end_offset}) of stream {held.stream_id}",
                stream_id=held.stream_id,
            )


def _cover_exactly(blocks: Sequence[BlockEntry], held: ObjectRange) -> bool:
    return (
        bool(blocks)
        and blocks[0].start_offset == held.start_offset
        and blocks[-1].end_offset == held.end_offset
        and all(first.end_offset == second.start_offset for first, second in pairwise(blocks))
        and sum(block.size_bytes for block in blocks) == held.size_bytes
    )


def _check_blocks(
    store: ObjectStore,
    metadata: ObjectMetadata,
    index: BlockIndex,
    findings: tuple[Finding, ...],
    request_bytes_max: int,
) -> ObjectCheck:
    """Reads every block, verifies its checksum and decodes its frames. Damage in one block does not hide damage in
    others."""
    found = list(findings)
    bytes_read = 0
    for run in _joined_reads(sorted(index, key=lambda entry: entry.position), request_bytes_max):
        found += _check_run(store, metadata, run)
        bytes_read += run[-1].end_position - run[0].position
    return ObjectCheck(tuple(found), len(index), bytes_read)


def _check_run(store: ObjectStore, metadata: ObjectMetadata, run: Sequence[BlockEntry]) -> list[Finding]:
    """Checks the blocks of one read. It is a function of its own so that its bytes are freed before the next read."""
    first = run[0].position
    raw = memoryview(store.get_range(object_key(metadata.object_id), first, run[-1].end_position))
    found: list[Finding] = []
    for entry in run:
        try:
            _verify(raw[entry.position - first : entry.end_position - first], entry, metadata.object_id)
        except CorruptData as damage:
            found.append(_finding(FindingKind.OBJECT_DAMAGED, metadata, str(damage), entry.stream_id))
    return found


def _verify(raw: memoryview, entry: BlockEntry, object_id: int) -> None:
    verify_block(raw, entry, object_id)
    expected, records = entry.start_offset, 0
    for batch in decode_frames(raw):
        if batch.stream_id != entry.stream_id or batch.base_offset < expected:
            raise DamagedBlock(entry, object_id, f"holds a batch that is not its own at {batch.base_offset}")
        expected, records = batch.end_offset, records + batch.record_count
    if expected > entry.end_offset or records != entry.record_count:
        raise DamagedBlock(entry, object_id, f"holds {records} records up to {expected}")


def _joined_reads(entries: Sequence[BlockEntry], bytes_max: int) -> Iterator[list[BlockEntry]]:
    run: list[BlockEntry] = []
    for entry in entries:
        follows = bool(run) and run[-1].end_position == entry.position
        if run and not (follows and entry.end_position - run[0].position <= bytes_max):
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def _failed(kind: FindingKind, metadata: ObjectMetadata, text: str) -> ObjectCheck:
    return ObjectCheck((_finding(kind, metadata, text),))


def _finding(kind: FindingKind, metadata: ObjectMetadata, text: str, stream_id: int | None = None) -> Finding:
    return Finding(
        kind,
        f"object {metadata.object_id} {text}",
        stream_id=stream_id,
        object_id=metadata.object_id,
        key=object_key(metadata.object_id),
        size_bytes=metadata.size_bytes,
        bucket_id=metadata.bucket_id,
    )
