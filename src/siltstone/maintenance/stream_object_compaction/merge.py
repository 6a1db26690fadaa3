"""Plans the merge of one merge group: the blocks of the new object, its parts, and the contents of its commit.

A merge is a value: the bytes of the new object follow from it, down to index and footer, so a task that runs twice
writes the same. Blocks are not changed; the index entries of neighbours are joined up to a limit, and their checksums
combined, so a damaged block is still detected afterwards.

Parts are copied inside the store where possible. A store accepts no part below a minimum (5 MiB on S3) but the last, so
a smaller piece of a source is read by the task, together with its neighbours, until the part is large enough. A part
that is read begins and ends with whole blocks, so that every block which passes through a task is verified; a copy may
be cut anywhere. The last part is always written by the task: it has the remaining blocks, the index and the footer.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np

from siltstone.metadata.commands import NewObject
from siltstone.metadata.entities import StreamMetadata
from siltstone.model.objects import ObjectRange
from siltstone.offline.blocks.columns import ENTRY, Source, SourceUnusable, Table, live_blocks
from siltstone.offline.blocks.joining import trailer
from siltstone.offline.settings import StreamObjectCompactionSettings


class CopiedPart(msgspec.Struct, frozen=True, array_like=True):
    """A part that is copied inside the store: bytes [start, end) of source number ``source``, at ``position`` of the
    new object."""

    part_number: int
    position: int
    source: int
    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


class ReadPart(msgspec.Struct, frozen=True, array_like=True):
    """A part that the task reads and writes: the blocks [first_block, end_block), then ``trailer`` (index and footer,
    in the last part only)."""

    part_number: int
    position: int
    first_block: int
    end_block: int
    trailer: bytes = b""


Part = CopiedPart | ReadPart


def lay_out(table: Table, trailer: bytes, settings: StreamObjectCompactionSettings) -> list[Part]:
    """Returns the parts in order; the last one is a ReadPart. ``table`` has the blocks in the order of the new
    object."""
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
        """The first row that is in no part yet. The rows from it on are smaller than a part."""

    def add(self, first: int, end: int) -> None:
        """Adds rows [first, end), which are contiguous in one source."""
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
        """Adds a part of the waiting rows, filled up from the head of a large span; with the whole span when the rest
        of it would be too small for a part."""
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
    """Yields the spans of rows [first, end) whose bytes are contiguous in one source."""
    ends_before = table["position"][:-1] + table["size_bytes"][:-1]
    leaps = (table["source"][1:] != table["source"][:-1]) | (table["position"][1:] != ends_before)
    firsts = [0, *(np.flatnonzero(leaps) + 1).tolist()]
    return zip(firsts, [*firsts[1:], len(table)], strict=True)


class Merge:
    """``table`` holds the live blocks of ``sources`` in offset order, without trimmed blocks at the front (T09)."""

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
        """Whether the task reads the whole object and puts it in one request, so that no multipart upload is needed."""
        return len(self.parts) == 1

    @cached_property
    def data_bytes(self) -> int:
        return int(self.table["size_bytes"].sum())

    @property
    def size_bytes(self) -> int:
        """The size of the new object."""
        return self.data_bytes + len(self.trailer)

    @property
    def bytes_copied(self) -> int:
        """The bytes that are copied inside the store."""
        return sum(part.size_bytes for part in self.parts if isinstance(part, CopiedPart))

    @property
    def bytes_freed(self) -> int:
        """The bytes that are freed when the sources are deleted: trimmed blocks, and the bytes that several indexes
        need more than one."""
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
    """Plans the merge of sources that each hold something live. Raises SourceUnusable when an index contradicts the
    image."""
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
                f"object {object_id} does not continue stream {before[0]} at offset {before[2]}; run siltstone check"
            )
