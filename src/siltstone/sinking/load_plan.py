"""Plans the objects that a load writes, each with its streams and offsets, from image and manifest. Pure.

As in uploads of a broker, a stream with SPLIT_SIZE_BYTES or more gets stream objects of its own, and all others share
one stream set object. A stream object is cut at LOAD_OBJECT_BYTES_MAX. All offsets follow from the record counts of the
parts, so the objects are written side by side.
"""

from collections.abc import Iterator, Sequence

import msgspec

from siltstone.metadata.entities import StreamMetadata, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.refusals import StreamNotClosed
from siltstone.metadata.sinks import StreamLoad
from siltstone.metadata.streams import load_epoch
from siltstone.model.limits import HOUR_MS, MIB, SECOND_MS, SPLIT_SIZE_BYTES, STREAMS_PER_OBJECT_MAX
from siltstone.sinking.failures import TopicGoneForSink
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.staging import StagedPart

LOAD_OBJECT_BYTES_MAX = 256 * MIB
"""A broker that opens the partition later knows the newest time of each object, so a lookup by time may have to read
this many bytes. Stream object compaction joins the objects in time."""

PREPARED_MS_MIN = 1 * HOUR_MS
BYTES_PER_SECOND_MIN = 4 * MIB
"""A load that is slower finds its prepared objects given up, and starts again."""


class LoadedRun(msgspec.Struct, frozen=True):
    """Parts of one stream, in order, from ``start_offset`` on."""

    stream_id: int
    epoch: int
    start_offset: int
    has_append_time: bool
    parts: tuple[StagedPart, ...]

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts)


class PlannedLoadObject(msgspec.Struct, frozen=True):
    """An object to write; ``runs`` are ordered by stream id. A stream object has one."""

    is_set: bool
    runs: tuple[LoadedRun, ...]

    @property
    def size_bytes(self) -> int:
        return sum(run.size_bytes for run in self.runs)


class LoadPlan(msgspec.Struct, frozen=True):
    """``loads`` are the states of the streams that the commit assumes."""

    loads: tuple[StreamLoad, ...]
    objects: tuple[PlannedLoadObject, ...]

    @property
    def time_limit_ms(self) -> int:
        """The time for which the objects are prepared."""
        size_bytes = sum(each.size_bytes for each in self.objects)
        return PREPARED_MS_MIN + size_bytes * SECOND_MS // BYTES_PER_SECOND_MIN


def plan_load(
    image: ImageView,
    manifest: SinkManifest,
    topics_with_append_time: frozenset[str],
    split_size_bytes: int = SPLIT_SIZE_BYTES,
    object_bytes_max: int = LOAD_OBJECT_BYTES_MAX,
    streams_max: int = STREAMS_PER_OBJECT_MAX,
) -> LoadPlan:
    """``topics_with_append_time``: the ids of topics whose records get the time of the load. ``streams_max``: of one
    object. Raises TopicGoneForSink,
    StreamNotClosed."""
    loads: list[StreamLoad] = []
    shared: list[LoadedRun] = []
    own: list[PlannedLoadObject] = []
    for stream_id, parts in manifest.streams():
        stream = closed_stream(image, parts[0])
        epoch = load_epoch(stream)
        loads.append(StreamLoad(stream_id, epoch, stream.end_offset))
        has_append_time = parts[0].topic_id in topics_with_append_time
        run = LoadedRun(stream_id, epoch, stream.end_offset, has_append_time, tuple(parts))
        if run.size_bytes < split_size_bytes:
            shared.append(run)
        else:
            own += [PlannedLoadObject(False, (each,)) for each in _cut(run, object_bytes_max)]
    if len(shared) == 1 or len(shared) > streams_max:
        keeps = 0 if len(shared) == 1 else streams_max
        own += [PlannedLoadObject(False, (run,)) for run in shared[keeps:]]
        del shared[keeps:]
    sets = (PlannedLoadObject(True, tuple(shared)),) if shared else ()
    return LoadPlan(tuple(loads), (*sets, *own))


def closed_stream(image: ImageView, part: StagedPart) -> StreamMetadata:
    """Returns the stream of a part, to which a sink may append. Raises TopicGoneForSink, StreamNotClosed."""
    stream = image.streams.get(part.stream_id)
    if part.topic_id not in image.topics or stream is None or stream.state is StreamState.DELETED:
        raise TopicGoneForSink(part.topic)
    if stream.state is not StreamState.CLOSED:
        raise StreamNotClosed(
            f"{part.topic}-{part.partition} is open at node {stream.owner}, and only the broker there may append to it:"
            " stop that broker, or write with mode=relay"
        )
    return stream


def _cut(run: LoadedRun, object_bytes_max: int) -> Iterator[LoadedRun]:
    """Cuts the run before each part with which it would be larger than the limit."""
    offset = run.start_offset
    taken: list[StagedPart] = []
    for part in run.parts:
        if taken and sum(each.size_bytes for each in taken) + part.size_bytes > object_bytes_max:
            yield _run_of(run, offset, taken)
            offset, taken = offset + _records(taken), []
        taken.append(part)
    yield _run_of(run, offset, taken)


def _run_of(run: LoadedRun, offset: int, parts: Sequence[StagedPart]) -> LoadedRun:
    return msgspec.structs.replace(run, start_offset=offset, parts=tuple(parts))


def _records(parts: Sequence[StagedPart]) -> int:
    return sum(part.record_count for part in parts)
