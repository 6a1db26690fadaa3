"""What of an object is live. Pure.

From the image alone for whole ranges; a range that a trim has cut through is prorated by its offsets, which is good
enough to say whose index is to be read first. From the index, for each block: it is live when its end lies above the
start offset of its stream, the stream exists and is not deleted, and the image says that this object serves its
range. A block that a trim has cut through is live as a whole.

An object that contradicts the image is neither dead nor a candidate: nothing of it is dropped (rule 4).

Which objects a run by topic looks at: those that hold something of one of its topics, dead or alive.

Which objects are worth rewriting, and which of them together. Pure.

The *ratio* of an object is its live bytes to all its bytes, of a stream set object to at least the target size. Below
the threshold, strictly, it is a candidate; the smallest ratio first, of equal ones the oldest data.

Two reasons, told apart because the second alone would go on for ever:

sparse   of the bytes of its blocks less than the threshold is live: rewriting it frees the rest
small    it is small for a stream set object: rewriting it frees nothing, but with another one there is one less

A stream object is never small here: joining those of a stream is what stream object compaction does.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from siltstone.foundation.portions import portions
from siltstone.maintenance.blocks.columns import ENTRY, Source, SourceUnusable, live_blocks
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.topic_streams import topic_streams
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.streams import first_holding, is_live
from siltstone.model.objects import ObjectKind, ObjectRange

Streams = Mapping[int, StreamMetadata]


class Estimate(msgspec.Struct, frozen=True):
    """From the image: bytes of the object, of its ranges that are live from end to end, and what is expected of the
    others."""

    total_bytes: int
    whole_bytes: int
    prorated_bytes: float

    @property
    def live_bytes(self) -> float:
        return self.whole_bytes + self.prorated_bytes


class LiveBytes(msgspec.Struct, frozen=True):
    """From the index: all blocks, and those that are live."""

    block_bytes: int
    live_bytes: int

    @property
    def dead_bytes(self) -> int:
        return self.block_bytes - self.live_bytes


def is_dead(metadata: ObjectMetadata, streams: Streams) -> bool:
    """Whether records prove that nobody can ask for anything in it. Raises SourceUnusable."""
    return not any(is_live(served_stream(held, streams), held) for held in metadata.ranges)


def estimated(metadata: ObjectMetadata, streams: Streams) -> Estimate:
    """Raises SourceUnusable."""
    whole, prorated = 0, 0.0
    for held in metadata.ranges:
        stream = served_stream(held, streams)
        if not is_live(stream, held):
            continue
        if held.start_offset >= stream.start_offset:
            whole += held.size_bytes
        else:
            share = (held.end_offset - stream.start_offset) / (held.end_offset - held.start_offset)
            prorated += held.size_bytes * share
    return Estimate(metadata.size_bytes, whole, prorated)


def live_bytes(source: Source, streams: Streams) -> LiveBytes:
    """Raises SourceUnusable."""
    for held in source.metadata.ranges:
        served_stream(held, streams)
    blocks = np.frombuffer(source.index.raw, dtype=ENTRY)["size_bytes"]
    return LiveBytes(int(blocks.sum()), int(live_blocks(source, streams)["size_bytes"].sum()))


def served_stream(held: ObjectRange, streams: Streams) -> StreamMetadata:
    """The stream of a range, which lists it as long as anything of it is live. Raises SourceUnusable."""
    stream = streams.get(held.stream_id)
    if stream is None:
        raise SourceUnusable(
            f"stream {held.stream_id} is not in the image, and no record says it was deleted"
        )
    if stream.state is not StreamState.DELETED and not _lists(stream, held):
        raise SourceUnusable(
            f"stream {held.stream_id} does not list what it holds of it; run siltstone check"
        )
    return stream


def _lists(stream: StreamMetadata, held: ObjectRange) -> bool:
    at = first_holding(stream.ranges, held.start_offset)
    return at < len(stream.ranges) and stream.ranges[at].object_id == held.object_id


Topics = dict[int, str]
"""The topic's name by stream id."""


def names_of_topics(image: MetadataImage, scope: Scope) -> Topics:
    """Empty when everything is looked at."""
    if scope.topics is None:
        return {}
    return {stream_id: each.topic.name for stream_id, each in topic_streams(image).items()}


def in_scope(metadata: ObjectMetadata, topics: Topics, scope: Scope) -> bool:
    return scope.topics is None or any(scope.includes(topics.get(held.stream_id)) for held in metadata.ranges)


class Candidate(msgspec.Struct, frozen=True):
    source: Source
    live: LiveBytes
    ratio: float
    is_sparse: bool

    @property
    def metadata(self) -> ObjectMetadata:
        return self.source.metadata

    @property
    def object_id(self) -> int:
        return self.metadata.object_id


Round = tuple[Candidate, ...]


def is_worth_a_look(
    kind: ObjectKind | None, estimate: Estimate, threshold: float, target_size_bytes: int
) -> bool:
    """Whether its index may show that it is a candidate: what a trim has cut through may be nearly all dead, however
    many offsets are left."""
    return estimate.whole_bytes / _whole(kind, estimate.total_bytes, target_size_bytes) < threshold


def expected_ratio(metadata: ObjectMetadata, estimate: Estimate, target_size_bytes: int) -> float:
    return estimate.live_bytes / _whole(metadata.kind, estimate.total_bytes, target_size_bytes)


def judged(source: Source, live: LiveBytes, threshold: float, target_size_bytes: int) -> Candidate | None:
    """None for an object that is no candidate."""
    metadata = source.metadata
    ratio = live.live_bytes / _whole(metadata.kind, metadata.size_bytes, target_size_bytes)
    is_sparse = live.live_bytes < threshold * live.block_bytes
    is_small = metadata.kind is ObjectKind.STREAM_SET_OBJECT and metadata.size_bytes < target_size_bytes
    # What makes it less than the threshold besides is its index, and that would be as large again.
    return (
        Candidate(source, live, ratio, is_sparse) if ratio < threshold and (is_sparse or is_small) else None
    )


def ordered(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda each: (each.ratio, each.metadata.data_time_ms, each.object_id))


def rounds(candidates: Sequence[Candidate], round_bytes: int, objects_max: int) -> Iterator[Round]:
    """Stream set objects in their order, as many together as the limit of live bytes allows; one larger goes alone."""
    return portions(candidates, objects_max, lambda candidate: (candidate.live.live_bytes,), (round_bytes,))


def is_worth_a_round(members: Sequence[Candidate]) -> bool:
    """Not for a small one that finds nobody to be put together with."""
    return len(members) > 1 or members[0].is_sparse


def _whole(kind: ObjectKind | None, total_bytes: int, target_size_bytes: int) -> int:
    is_set = kind is ObjectKind.STREAM_SET_OBJECT
    return max(1, total_bytes, target_size_bytes if is_set else 0)
