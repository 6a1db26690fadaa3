"""Decodes an object: its footer and index, and the batches in its blocks. Every checksum is verified."""

from collections.abc import Iterator

import msgspec

from siltstone.cli.inspecting.source import ObjectPlace
from siltstone.model.errors import CorruptData
from siltstone.model.limits import TAIL_READ_BYTES
from siltstone.model.record_batch import BlockEntry, RecordBatch
from siltstone.object_formats.batch_frame import decode_frames
from siltstone.object_formats.block_index import BlockIndex, verify_block
from siltstone.object_formats.object_layout import (
    FORMAT_VERSION,
    Footer,
    IndexLiesBefore,
    decode_footer,
    index_of_tail,
    verified_index,
)
from siltstone.object_store.port import ObjectNotFound


class ObjectDamaged(CorruptData):
    """The bytes of the object differ from what was written, or are missing. The text says where and why."""


class Anatomy(msgspec.Struct, frozen=True):
    footer: Footer
    index: BlockIndex
    format_version: int = FORMAT_VERSION


class BlockContents(msgspec.Struct, frozen=True):
    entry: BlockEntry
    batches: list[RecordBatch]


def dissect(source: ObjectPlace) -> Anatomy:
    """Reads the footer and the index. Raises ObjectDamaged."""
    try:
        tail = source.read(max(0, source.size_bytes - TAIL_READ_BYTES), source.size_bytes)
        footer = decode_footer(tail, source.size_bytes)
        found = index_of_tail(tail, source.size_bytes)
        if isinstance(found, IndexLiesBefore):
            found = verified_index(source.read(found.position, found.end), found.footer)
    except ObjectNotFound as gone:
        raise ObjectDamaged(f"{source.place} is in the metadata, but missing from its bucket") from gone
    except CorruptData as damage:
        raise _damaged(source, damage) from damage
    return Anatomy(footer, found)


def blocks_of(source: ObjectPlace, entries: list[BlockEntry]) -> Iterator[BlockContents]:
    """Reads and decodes the blocks one by one, one request for each. Raises ObjectDamaged."""
    object_id = source.metadata.object_id if source.metadata is not None else -1
    for entry in entries:
        try:
            raw = source.read(entry.position, entry.end_position)
            verify_block(raw, entry, object_id)
            yield BlockContents(entry, list(decode_frames(raw)))
        except CorruptData as damage:
            raise _damaged(source, damage) from damage


def _damaged(source: ObjectPlace, damage: CorruptData) -> ObjectDamaged:
    return ObjectDamaged(f"{source.place} is damaged, {type(damage).__name__}: {damage}")
