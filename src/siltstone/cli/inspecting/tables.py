"""The header, index and batches of an object as tables and as JSON."""

from collections.abc import Iterable

import msgspec
from rich.table import Table

from siltstone.cli.inspecting.anatomy import Anatomy, BlockContents
from siltstone.cli.inspecting.source import ObjectPlace
from siltstone.cli.output import facts, table
from siltstone.cli.words import count_words, counted, size_words, time_words
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.objects import ObjectKind
from siltstone.model.record_batch import BlockEntry, RecordBatch

_KIND_WORDS = {
    ObjectKind.STREAM_SET_OBJECT: "SSO, a stream set object: blocks of many streams",
    ObjectKind.STREAM_OBJECT: "SO, a stream object: of one stream",
}


def header_facts(source: ObjectPlace, anatomy: Anatomy) -> Table:
    index, footer = anatomy.index, anatomy.footer
    entries = list(index)
    return facts(
        object=source.metadata.object_id if source.metadata else None,
        place=source.place,
        **_metadata_facts(source.metadata),
        size=f"{size_words(source.size_bytes)} ({count_words(source.size_bytes)} bytes)",
        format=f"version {anatomy.format_version}",
        holds=", ".join(
            (
                counted(len({entry.stream_id for entry in entries}), "stream"),
                counted(len(entries), "block"),
                counted(sum(entry.record_count for entry in entries), "record"),
            )
        ),
        times=_span(entries),
        index=f"{size_words(footer.index_bytes)} at {count_words(footer.index_position)}, "
        f"CRC-32C {footer.index_crc32c:08x}, verified",
    )


def _metadata_facts(metadata: ObjectMetadata | None) -> dict[str, object]:
    if metadata is None:
        return {}
    return {
        "kind": None if metadata.kind is None else _KIND_WORDS[metadata.kind],
        "state": metadata.state.name.lower(),
        "bucket": metadata.bucket_id,
        "copies": ", ".join(map(str, metadata.copies)) or None,
        "committed": time_words(metadata.committed_ms) if metadata.committed_ms else None,
        "destroyed": time_words(metadata.destroyed_ms) if metadata.destroyed_ms else None,
    }


def _span(entries: list[BlockEntry]) -> str | None:
    smallest = [entry.smallest_timestamp_ms for entry in entries if entry.smallest_timestamp_ms >= 0]
    if not smallest:
        return None
    return f"{time_words(min(smallest))} … {time_words(max(e.largest_timestamp_ms for e in entries))}"


def index_table(entries: Iterable[BlockEntry]) -> Table:
    """One row for each block. It fits into 80 columns, so only --json has the checksums."""
    shown = table(">stream", ">start", ">end", ">records", ">position", ">bytes", "first", "last")
    for entry in entries:
        shown.add_row(
            str(entry.stream_id),
            count_words(entry.start_offset),
            count_words(entry.end_offset),
            count_words(entry.record_count),
            count_words(entry.position),
            count_words(entry.size_bytes),
            time_words(entry.smallest_timestamp_ms)[:10],
            time_words(entry.largest_timestamp_ms)[:10],
        )
    return shown


def batches_table(contents: BlockContents) -> Table:
    entry = contents.entry
    shown = table(
        ">start", ">end", ">records", ">epoch", ">bytes", "first", "last",
        title=f"stream {entry.stream_id} [{entry.start_offset}, {entry.end_offset}), block at {entry.position}, "
        "checksum verified",
    )  # fmt: skip
    for batch in contents.batches:
        shown.add_row(
            count_words(batch.base_offset),
            count_words(batch.end_offset),
            count_words(batch.record_count),
            str(batch.stream_epoch),
            count_words(len(batch.payload)),
            time_words(batch.smallest_timestamp_ms),
            time_words(batch.largest_timestamp_ms),
        )
    return shown


def as_json(
    source: ObjectPlace, anatomy: Anatomy, entries: list[BlockEntry], blocks: list[BlockContents] | None
) -> dict[str, object]:
    """``entries``: the index entries to show. ``blocks``: None if they were not read; the member is left out then."""
    metadata = source.metadata
    document: dict[str, object] = {
        "place": source.place,
        "size_bytes": source.size_bytes,
        "format_version": anatomy.format_version,
        "footer": anatomy.footer,
        "metadata": None if metadata is None else _metadata_json(metadata),
        "index": entries,
    }
    if blocks is not None:
        document["blocks"] = [
            {"position": block.entry.position, "batches": [_batch_json(batch) for batch in block.batches]}
            for block in blocks
        ]
    return document


def _metadata_json(metadata: ObjectMetadata) -> dict[str, object]:
    """Returns the fields by name, because the struct itself would be encoded as an array, as in snapshots."""
    named = {name: getattr(metadata, name) for name in metadata.__struct_fields__ if name != "ranges"}
    return named | {"state": metadata.state.name, "kind": metadata.kind.label if metadata.kind else None}


def _batch_json(batch: RecordBatch) -> dict[str, object]:
    """Returns all fields except the payload, of which only the size is shown."""
    named = {name: value for name, value in msgspec.structs.asdict(batch).items() if name != "payload"}
    return named | {"payload_bytes": len(batch.payload)}
