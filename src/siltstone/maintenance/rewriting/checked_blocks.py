"""Blocks on their way through a task: each is checked against its index entry before it is written on."""

from collections.abc import Sequence

from siltstone.foundation.crc32c import crc32c
from siltstone.maintenance.planning.columns import Table
from siltstone.maintenance.rewriting.source_bytes import SourceBytes
from siltstone.model.block import BlockEntry
from siltstone.object_formats.block_check import DamagedBlock


def checked_blocks(blocks: Table, sources: SourceBytes, object_ids: Sequence[int]) -> list[memoryview]:
    """The bytes of the blocks one after another; ``object_ids`` are those of the sources, by number. Raises
    DamagedBlock: rewriting a damaged block would give the damage a valid checksum."""
    buffers: list[memoryview] = []
    columns = (blocks["source"], blocks["position"], blocks["size_bytes"], blocks["crc32c"])
    for at, (source, position, size, crc) in enumerate(
        zip(*(each.tolist() for each in columns), strict=True)
    ):
        views = sources.views(source, position, size)
        if crc32c(views) != crc:
            raise _damaged(blocks, at, object_ids)
        buffers += views
    return buffers


def _damaged(blocks: Table, at: int, object_ids: Sequence[int]) -> DamagedBlock:
    *fields, source = blocks[at].tolist()
    return DamagedBlock(BlockEntry(*fields), object_ids[source], "is damaged: run siltstone check")
