"""The merge of one group: which blocks the new object holds, its parts, and what its commit says.

A value: the bytes of the new object follow from it, down to index and footer, so a task may run twice and write the
same. Blocks stay as they are; index entries of neighbours are joined up to a limit, their checksums combined, so a
block that was damaged stays recognisable as such.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from siltstone.maintenance.planning.columns import ENTRY, Table, live_blocks
from siltstone.maintenance.planning.joining import trailer
from siltstone.maintenance.planning.sources import Source, SourceUnusable
from siltstone.maintenance.planning.stream_objects.parts import CopiedPart, Part, ReadPart, lay_out
from siltstone.maintenance.planning.stream_objects.settings import StreamObjectCompactionSettings
from siltstone.metadata.commands import NewObject
from siltstone.metadata.entities import StreamMetadata
from siltstone.model.objects import ObjectRange


class Merge:
    """``table`` holds the live blocks of ``sources`` in offset order: leading trimmed ones are left out (T09)."""

    def __init__(
        self, sources: Sequence[Source], table: Table, settings: StreamObjectCompactionSettings
    ) -> None:
        self.sources = tuple(source.metadata for source in sources)
        self.table = table
        self.trailer = trailer(table, settings.merged_block_bytes_max)
        self.parts: tuple[Part, ...] = tuple(lay_out(table, self.trailer, settings))

    @property
    def source_ids(self) -> tuple[int, ...]:
        return tuple(source.object_id for source in self.sources)

    @property
    def is_put(self) -> bool:
        """All of it passes through a process, so no multipart upload is needed."""
        return len(self.parts) == 1

    @cached_property
    def data_bytes(self) -> int:
        return int(self.table["size_bytes"].sum())

    @property
    def size_bytes(self) -> int:
        """Of the whole new object."""
        return self.data_bytes + len(self.trailer)

    @property
    def bytes_copied(self) -> int:
        """Inside the store."""
        return sum(part.size_bytes for part in self.parts if isinstance(part, CopiedPart))

    @property
    def bytes_freed(self) -> int:
        """Once the sources are deleted: trimmed blocks, and what several indexes take more than one."""
        return max(0, sum(source.size_bytes for source in self.sources) - self.size_bytes)

    def part_bytes(self, part: Part) -> int:
        if isinstance(part, CopiedPart):
            return part.size_bytes
        return int(self.table["size_bytes"][part.first_block : part.end_block].sum()) + len(part.trailer)

    def blocks_of(self, part: ReadPart) -> Table:
        return self.table[part.first_block : part.end_block]

    def new_object(self, object_id: int) -> NewObject:
        first, last = self.table[0], self.table[-1]
        held = ObjectRange(
            stream_id=int(first["stream_id"]),
            object_id=object_id,
            start_offset=int(first["start_offset"]),
            end_offset=int(last["end_offset"]),
            size_bytes=self.data_bytes,
            largest_timestamp_ms=int(self.table["largest_timestamp_ms"].max()),
        )
        return NewObject(object_id, self.size_bytes, (held,))


def plan_merge(
    sources: Sequence[Source],
    streams: Mapping[int, StreamMetadata],
    settings: StreamObjectCompactionSettings,
) -> Merge:
    """Of objects that each hold something live. Raises SourceUnusable when index and image differ."""
    tables = [live_blocks(source, streams) for source in sources]
    table = np.concatenate([np.empty(0, dtype=ENTRY), *tables])
    table["source"] = np.repeat(np.arange(len(tables), dtype=np.uint32), [len(each) for each in tables])
    _refuse_gaps(sources, table)
    return Merge(sources, table, settings)


def _refuse_gaps(sources: Sequence[Source], table: Table) -> None:
    for before, after in pairwise(table[["stream_id", "start_offset", "end_offset", "source"]].tolist()):
        if before[0] != after[0] or before[2] != after[1]:
            object_id = sources[after[3]].metadata.object_id
            raise SourceUnusable(
                f"object {object_id} does not go on at offset {before[2]} of stream {before[0]}; run siltstone check"
            )
