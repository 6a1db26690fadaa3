"""How an object is put together from others: which parts are copied inside the store, and which pass through a process.

A store takes no part but the last below a minimum (5 MiB on S3), so what is smaller in a source is read, and its
neighbours with it until the part is large enough. Reading begins and ends with blocks, so that every block that passes
through a process is checked on the way; copying does not care. The last part is ours in any case: index and footer are
in it, behind what is too small to be sent before.

The merge of one group: which blocks the new object holds, its parts, and what its commit says.

A value: the bytes of the new object follow from it, down to index and footer, so a task may run twice and write the
same. Blocks stay as they are; index entries of neighbours are joined up to a limit, their checksums combined, so a
block that was damaged stays recognisable as such.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np

from siltstone.maintenance.blocks.columns import ENTRY, Source, SourceUnusable, Table, live_blocks
from siltstone.maintenance.blocks.joining import trailer
from siltstone.maintenance.settings import StreamObjectCompactionSettings
from siltstone.metadata.commands import NewObject
from siltstone.metadata.entities import StreamMetadata
from siltstone.model.objects import ObjectRange


class CopiedPart(msgspec.Struct, frozen=True, array_like=True):
    """Bytes [start, end) of source number ``source``, at ``position`` of the new object."""

    part_number: int
    position: int
    source: int
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


class ReadPart(msgspec.Struct, frozen=True, array_like=True):
    """The blocks [first_block, end_block), then ``trailer`` (index and footer, in the last part only)."""

    part_number: int
    position: int
    first_block: int
    end_block: int
    trailer: bytes = b""


Part = CopiedPart | ReadPart


def lay_out(table: Table, trailer: bytes, settings: StreamObjectCompactionSettings) -> list[Part]:
    """The parts in order; the last one is a ReadPart. ``table``: the blocks as they will lie in the new object."""
    layout = _Layout(table, settings)
    for first, end in _spans(table):
        layout.add(first, end)
    layout.read(len(table), trailer)
    return layout.parts


class _Layout:
    def __init__(self, table: Table, settings: StreamObjectCompactionSettings) -> None:
        self.parts: list[Part] = []
        self._table = table
        self._settings = settings
        self._bytes_before = np.concatenate(([0], np.cumsum(table["size_bytes"])))
        self._waiting = 0
        """The first row that no part has yet; what waits takes less than a part."""

    def add(self, first: int, end: int) -> None:
        """The rows [first, end), which follow each other in one source."""
        smallest = self._settings.part_bytes_min
        if self._bytes(first, end) < smallest:
            if self._bytes(self._waiting, end) >= smallest:
                self.read(end)
            return
        if self._waiting < first:
            self._read_with_head(first, end)
        if self._waiting < end:
            self._copy(end)

    def read(self, end: int, trailer: bytes = b"") -> None:
        position = int(self._bytes_before[self._waiting])
        self.parts.append(ReadPart(len(self.parts) + 1, position, self._waiting, end, trailer))
        self._waiting = end

    def _read_with_head(self, first: int, end: int) -> None:
        """What waits, filled up from the head of a large span; with all of it when the rest would be too small."""
        smallest = self._settings.part_bytes_min
        full = self._bytes_before[self._waiting] + smallest
        cut = int(np.searchsorted(self._bytes_before, full))
        self.read(cut if self._bytes(cut, end) >= smallest else end)

    def _copy(self, end: int) -> None:
        size_bytes = self._bytes(self._waiting, end)
        source = int(self._table["source"][self._waiting])
        start = int(self._table["position"][self._waiting])
        position = int(self._bytes_before[self._waiting])
        count = -(-size_bytes // self._settings.copy_bytes_max)
        for number in range(count):
            before, after = size_bytes * number // count, size_bytes * (number + 1) // count
            self.parts.append(
                CopiedPart(len(self.parts) + 1, position + before, source, start + before, start + after)
            )
        self._waiting = end

    def _bytes(self, first: int, end: int) -> int:
        return int(self._bytes_before[end] - self._bytes_before[first])


def _spans(table: Table) -> Iterator[tuple[int, int]]:
    """Rows [first, end) that follow each other, byte after byte, in one source."""
    ends_before = table["position"][:-1] + table["size_bytes"][:-1]
    leaps = (table["source"][1:] != table["source"][:-1]) | (table["position"][1:] != ends_before)
    firsts = [0, *(np.flatnonzero(leaps) + 1).tolist()]
    return zip(firsts, [*firsts[1:], len(table)], strict=True)


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
