"""Stream objects to compact: values for planning, and a store in memory whose streams are made of them.

Blocks are specs (start, end, bytes), as in ``compaction_world``: one batch each, of ``end - start`` records, ``bytes``
with our 72 bytes of frame header.
"""

from collections.abc import Iterable, Sequence

from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport, run
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction
from siltstone.metadata.commands import CommitUpload, NewObject, PrepareObjects
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState, object_key
from siltstone.object_formats.batch_frame import FRAME_HEADER_BYTES
from siltstone.object_formats.object_layout import EncodedObject, ranges_of_entries
from siltstone.object_store.port import ObjectStore
from siltstone.offline.settings import StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner, Runner
from support.engine.batches import batch, build_object
from support.maintenance.compaction_world import CompactionWorld

Block = tuple[int, int, int]

SMALL = StreamObjectCompactionSettings(
    small_object_bytes=0,
    settled_ms=0,
    largest_share_max=1.0,
    group_bytes_max=1_000_000,
    group_objects_max=100,
    copy_bytes_max=100_000,
    part_bytes_min=1_000,
    merged_block_bytes_max=100_000,
)
"""Whatever touches becomes one object; what takes less than 1,000 bytes is read."""


def encode_blocks(stream_id: int, blocks: Iterable[Block]) -> EncodedObject:
    batches = [batch(stream_id, start, end - start, size - FRAME_HEADER_BYTES) for start, end, size in blocks]
    return build_object(batches, block_size_bytes=1)


def add_stream_object(
    world: CompactionWorld,
    stream_id: int,
    *blocks: Block,
    bucket_id: int | None = None,
    store: ObjectStore | None = None,
) -> int:
    """A stream object that continues the stream; its id."""
    bucket_id = world.any_bucket() if bucket_id is None else bucket_id
    world.make_streams(max(0, stream_id + 1 - world.metadata.image.next_stream_id))
    command = PrepareObjects(1, HOUR_MS, bucket_id, node_id=0, node_epoch=1)
    object_id = world.metadata.execute(command)
    built = encode_blocks(stream_id, blocks)
    (store or world.stores[bucket_id].store).put(object_key(object_id), built.buffers)
    new = NewObject(object_id, built.size_bytes, ranges_of_entries(built.entries, object_id))
    world.metadata.execute(CommitUpload(0, 1, None, (new,)))
    return object_id


def joined_up(
    world: CompactionWorld,
    settings: StreamObjectCompactionSettings = SMALL,
    *,
    runner: Runner | None = None,
    scope: Scope | None = None,
    budget: Budget | None = None,
    watch: Watch | None = None,
    **limits: int,
) -> RunReport:
    """Runs the kind once."""
    kind = StreamObjectCompaction(settings, **limits)
    used = runner or InProcessRunner()
    return run(
        world.context,
        kind,
        lambda: used,
        scope or Scope(),
        budget or Budget(),
        watch or Watch(kind.name, world.clock),
    )


def member(
    object_id: int,
    start: int,
    end: int,
    size_bytes: int,
    *,
    stream_id: int = 0,
    bucket_id: int = 0,
    committed_ms: int = 0,
    kind: ObjectKind = ObjectKind.STREAM_OBJECT,
) -> ObjectMetadata:
    """A committed object with one range, for planning."""
    held = ObjectRange(stream_id, object_id, start, end, size_bytes, 0)
    return ObjectMetadata(
        object_id=object_id, state=ObjectState.COMMITTED, bucket_id=bucket_id, kind=kind, size_bytes=size_bytes + 136,
        deadline_ms=0, committed_ms=committed_ms, destroyed_ms=0, data_time_ms=0, ranges=(held,),
    )  # fmt: skip


def stream_of(
    members: Sequence[ObjectMetadata],
    start_offset: int = 0,
    *,
    deleted: bool = False,
    cleaned_offset: int = 0,
) -> StreamMetadata:
    """The stream whose ranges they hold."""
    ranges = tuple(each.ranges[0] for each in members)
    return StreamMetadata(
        stream_id=ranges[0].stream_id, state=StreamState.DELETED if deleted else StreamState.OPENED, epoch=0, owner=0,
        start_offset=start_offset, end_offset=ranges[-1].end_offset, owner_ranges=(), ranges=ranges, tags={},
        cleaned_offset=cleaned_offset,
    )  # fmt: skip


def contiguous(*sizes: int) -> tuple[ObjectMetadata, ...]:
    """Objects 1, 2, … of these sizes, ten offsets each."""
    return tuple(member(at, 10 * at, 10 * at + 10, size) for at, size in enumerate(sizes, start=1))
