"""Stream set objects for planning tests: indexes without bytes, from specs like ``{0: [(0, 15, 45)]}``.

A spec names for each stream its blocks as (start, end, bytes). Planning looks at indexes alone, so the tables' block
sizes are used as they are; our frames' 72 bytes of header do not show here.
"""

from collections.abc import Iterable, Mapping, Sequence

from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.maintenance.stream_set_compaction.planner import plan_compaction
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.model.objects import ObjectKind, ObjectState
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.block_index import BlockIndex, encode_index
from siltstone.object_formats.object_layout import ranges_of_entries
from siltstone.offline.blocks.columns import Source
from siltstone.offline.settings import CompactionSettings

Spec = Mapping[int, Sequence[tuple[int, int, int]]]

NOW_MS = 1_700_000_000_000

F1: list[Spec] = [
    {0: [(0, 15, 45)], 1: [(25, 30, 45), (30, 60, 65)], 2: [(30, 60, 65)]},
    {0: [(15, 20, 44)], 1: [(60, 120, 95)]},
    {1: [(400, 500, 135)], 2: [(230, 270, 75)]},
]
G: list[Spec] = [
    {0: [(0, 20, 20)], 1: [(30, 60, 30)], 2: [(30, 60, 30)]},
    {0: [(20, 25, 5)], 1: [(60, 120, 60)]},
    {1: [(400, 500, 100)], 2: [(230, 270, 40)]},
]
ARTICLE: list[Spec] = [
    {0: [(0, 20, 20)], 1: [(30, 60, 30)], 3: [(210, 230, 20)]},
    {0: [(20, 25, 5)], 1: [(60, 120, 60)]},
    {2: [(400, 435, 35), (435, 500, 65)], 3: [(230, 270, 40)]},
]
SMALL = CompactionSettings(
    split_size_bytes=100, memory_bytes=1024, part_bytes_min=1, merged_block_bytes_max=1_000_000
)


def entries_of(spec: Spec) -> list[BlockEntry]:
    entries: list[BlockEntry] = []
    position = 0
    for stream_id in sorted(spec):
        for start, end, size in spec[stream_id]:
            crc = (stream_id * 2654435761 + start * 40503 + size) & 0xFFFFFFFF
            entries.append(BlockEntry(stream_id, start, end, 1, position, size, start, end, crc))
            position += size
    return entries


def source(object_id: int, spec: Spec, data_time_ms: int = NOW_MS) -> Source:
    entries = entries_of(spec)
    metadata = ObjectMetadata(
        object_id=object_id, state=ObjectState.COMMITTED, bucket_id=0, kind=ObjectKind.STREAM_SET_OBJECT,
        size_bytes=sum(entry.size_bytes for entry in entries), deadline_ms=0, committed_ms=1, destroyed_ms=0,
        data_time_ms=data_time_ms, ranges=ranges_of_entries(entries, object_id),
    )  # fmt: skip
    return Source(metadata, BlockIndex(encode_index(entries)))


def sources_of(specs: Iterable[Spec]) -> list[Source]:
    return [source(object_id, spec) for object_id, spec in enumerate(specs)]


def streams_of(
    sources: Iterable[Source], starts: Mapping[int, int] | None = None, deleted: Iterable[int] = ()
) -> dict[int, StreamMetadata]:
    """An opened stream for each that the sources hold; with start offset 0 unless another is given."""
    stream_ids = {held.stream_id for one in sources for held in one.metadata.ranges}
    return {
        stream_id: _stream(stream_id, (starts or {}).get(stream_id, 0), deleted) for stream_id in stream_ids
    }


def _stream(stream_id: int, start_offset: int, deleted: Iterable[int]) -> StreamMetadata:
    state = StreamState.DELETED if stream_id in deleted else StreamState.OPENED
    return StreamMetadata(stream_id, state, 0, 0, start_offset, 10**9, (), (), {})


def plan_of(specs: Sequence[Spec], settings: CompactionSettings = SMALL, **facts: object) -> CompactionPlan:
    sources = sources_of(specs)
    return plan_compaction(sources, streams_of(sources, **facts), settings, NOW_MS)  # type: ignore[arg-type]


def stream_objects(plan: CompactionPlan) -> list[tuple[int, int, int]]:
    """(stream, start, end) of each, in order."""
    _, made = plan.new_objects(100)
    return [(held.stream_id, held.start_offset, held.end_offset) for new in made for held in new.ranges]


def stream_set_ranges(plan: CompactionPlan) -> list[tuple[int, int, int]]:
    sets, _ = plan.new_objects(100)
    ranges = () if sets is None else sets.ranges
    return [(held.stream_id, held.start_offset, held.end_offset) for held in ranges]


def iterations(plan: CompactionPlan) -> list[tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]]:
    """Returns for each part its stream objects, and its joined blocks as (stream, start, end)."""
    made: list[tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]] = []
    objects = stream_objects(plan)
    first = plan.has_stream_set_object
    for at in range(len(plan.bounds)):
        iteration = plan.iteration(at)
        sos = [objects[piece.number - first] for piece in iteration.stream_objects]
        part = [] if iteration.part is None else _spans(iteration.blocks, iteration.part.first_block)
        made.append((sos, part))
    return made


def _spans(blocks: bytes, first_block: int) -> list[tuple[int, int, int]]:
    spans: list[tuple[int, int, int]] = []
    for at in range(first_block * 72, len(blocks), 72):
        stream, start, end = (
            int.from_bytes(blocks[at + field : at + field + 8], "little") for field in (0, 8, 16)
        )
        if spans and spans[-1][0] == stream and spans[-1][2] == start:
            spans[-1] = (stream, spans[-1][1], end)
        else:
            spans.append((stream, start, end))
    return spans
