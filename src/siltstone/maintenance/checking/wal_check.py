"""Judges the objects of write-ahead logs in a bucket by their keys and sizes alone.

A node deletes the objects whose records it has committed, and its next start deletes what an earlier life left.
Only seals are kept for ever: a process that was suspended for a week must still find one. *Litter* are objects that no
start of a node deletes or reads: objects of a node that was unregistered, which its clean end leaves, and objects that
were stored behind a seal after the start that put the seal. Sweep and garbage collection know only objects that the
metadata names, so they never touch a log.

An object under a node epoch that this metadata has not given out is no litter: another copy of the metadata has, so
this one is older, and the object may hold the only copy of records.
"""

from collections.abc import Iterator, Sequence

from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.metadata.decisions.membership import newest_epoch
from siltstone.metadata.image import MetadataImage
from siltstone.object_formats.wal_object import SEAL_BYTES, WalObjectPlace, wal_object_name
from siltstone.object_store.port import ObjectSummary

Named = tuple[WalObjectPlace, ObjectSummary]


def wal_findings(listed: Sequence[ObjectSummary], bucket_id: int, image: MetadataImage) -> Iterator[Finding]:
    """``image`` was read after the listing, so it knows every node epoch under which a listed object was put."""
    named = [(name, each) for each in listed if (name := wal_object_name(each.key)) is not None]
    seals: dict[tuple[int, int], int] = {}
    for name, summary in named:
        if summary.size_bytes == SEAL_BYTES:
            life = name.node_id, name.node_epoch
            seals[life] = min(name.seq, seals.get(life, name.seq))
    for name, summary in named:
        reason = litter_reason(name, summary.size_bytes, seals.get((name.node_id, name.node_epoch)), image)
        if reason:
            yield _finding(FindingKind.WAL_LITTER, summary, bucket_id, reason)
        elif name.node_epoch > (newest := newest_epoch(image, name.node_id)):
            yield _finding(
                FindingKind.METADATA_OLDER,
                summary,
                bucket_id,
                f"was put under epoch {name.node_epoch} of node {name.node_id}, and the metadata has given out epochs "
                f"up to {newest}: the metadata is an older copy. Restore the newest copy",
            )


def litter_reason(name: WalObjectPlace, size_bytes: int, seal_seq: int | None, image: MetadataImage) -> str:
    """Says why the object may be deleted; empty when it may not. ``seal_seq``: where its life is sealed, if it is
    listed."""
    node = image.nodes.get(name.node_id)
    if size_bytes == SEAL_BYTES or name.node_epoch > newest_epoch(image, name.node_id):
        return ""
    if node is None:
        return f"is of the write-ahead log of node {name.node_id}, which was unregistered"
    if seal_seq is not None and name.seq > seal_seq and name.node_epoch < node.node_epoch:
        return "landed behind the seal of its write-ahead log, so it was never acknowledged"
    return ""


def _finding(kind: FindingKind, summary: ObjectSummary, bucket_id: int, text: str) -> Finding:
    return Finding(
        kind,
        f"{summary.key} ({summary.size_bytes} bytes) {text}",
        key=summary.key,
        size_bytes=summary.size_bytes,
        bucket_id=bucket_id,
        modified_ms=summary.modified_ms,
    )
