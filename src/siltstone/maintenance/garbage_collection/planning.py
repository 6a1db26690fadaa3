"""The planning of garbage collection: how many bytes of an object are live, and which objects are rewritten together.
Pure.

*Live bytes.* From the image alone, a range counts as live as a whole; a range that a trim has cut through counts in
proportion to its offsets, which is good enough to decide which indexes are read. From the index, a block is live when
its end lies above its stream's start offset, the stream exists and is not deleted, and the image says that this
object serves the block's range. A block that a trim has cut through is live as a whole. An object that contradicts
the image is neither dead nor a candidate: nothing of it is dropped (rule 4). A run by topic looks at the objects that
hold anything of one of its topics, live or dead.

*Candidates.* The ratio of an object is its live bytes divided by its size; a stream set object counts as at least as
large as the target size. An object whose ratio is below the threshold is a candidate for one of two reasons, which are
kept apart because rewriting for the second alone would never end:

sparse   less than the threshold of its blocks' bytes is live: rewriting it frees the other bytes
small    it is a small stream set object: rewriting it frees nothing, but merged with another one there is one less

Stream objects are never candidates for being small: stream object compaction joins them. Candidates are ordered by
ratio, the smallest first, then by the age of their data, the oldest first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from siltstone.carrying.pipeline.kind import Scope
from siltstone.foundation.portions import portions
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.streams import first_holding, is_live
from siltstone.model.objects import ObjectKind, ObjectRange
from siltstone.offline.blocks.columns import ENTRY, Source, SourceUnusable, live_blocks
from siltstone.offline.topic_streams import topic_streams

Streams = Mapping[int, StreamMetadata]


class Estimate(msgspec.Struct, frozen=True):
    """An estimate from the image: the object's size, the bytes of its ranges that are live as a whole, and the share of
    the other ranges that is expected to be live."""

    total_bytes: int
    whole_bytes: int
    prorated_bytes: float

    @property
    def live_bytes(self) -> float:
        return self.whole_bytes + self.prorated_bytes


class LiveBytes(msgspec.Struct, frozen=True):
    """The exact count from the index: the bytes of all blocks, and of those that are live."""

    block_bytes: int
    live_bytes: int

    @property
    def dead_bytes(self) -> int:
        return self.block_bytes - self.live_bytes


def is_dead(metadata: ObjectMetadata, streams: Streams) -> bool:
    """Returns whether nothing in the object can be read any more, proven by the streams' records. Raises
    SourceUnusable."""
    return not any(is_live(served_stream(held, streams), held) for held in metadata.ranges)


def estimated(metadata: ObjectMetadata, streams: Streams) -> Estimate:
    """Estimates the live bytes of an object from the image. Raises SourceUnusable."""
    whole, prorated = 0, 0.0
    for held in metadata.ranges:
        stream = served_stream(held, streams)
        if held.start_offset < stream.start_offset:
            prorated += expected_live_bytes(held, stream)
        elif is_live(stream, held):
            whole += held.size_bytes
    return Estimate(metadata.size_bytes, whole, prorated)


def expected_live_bytes(held: ObjectRange, stream: StreamMetadata) -> float:
    """Estimates how much of a range is live: in proportion to the offsets where a trim has cut through it."""
    if not is_live(stream, held):
        return 0
    if held.start_offset >= stream.start_offset:
        return held.size_bytes
    share = (held.end_offset - stream.start_offset) / (held.end_offset - held.start_offset)
    return held.size_bytes * share


def live_bytes(source: Source, streams: Streams) -> LiveBytes:
    """Counts the live bytes of an object from its index. Raises SourceUnusable."""
    for held in source.metadata.ranges:
        served_stream(held, streams)
    blocks = np.frombuffer(source.index.raw, dtype=ENTRY)["size_bytes"]
    return LiveBytes(int(blocks.sum()), int(live_blocks(source, streams)["size_bytes"].sum()))


def served_stream(held: ObjectRange, streams: Streams) -> StreamMetadata:
    """Returns the stream of a range. Raises SourceUnusable when the image does not know the stream, or when the stream
    is not deleted and does not list the range."""
    stream = streams.get(held.stream_id)
    if stream is None:
        raise SourceUnusable(
            f"stream {held.stream_id} is not in the image, and no record says it was deleted"
        )
    if stream.state is not StreamState.DELETED and not _lists(stream, held):
        raise SourceUnusable(
            f"stream {held.stream_id} does not list the offsets that the object holds of it; run siltstone check"
        )
    return stream


def _lists(stream: StreamMetadata, held: ObjectRange) -> bool:
    at = first_holding(stream.ranges, held.start_offset)
    return at < len(stream.ranges) and stream.ranges[at].object_id == held.object_id


Topics = dict[int, str]
"""The topic's name by stream id."""


def names_of_topics(image: MetadataImage, scope: Scope) -> Topics:
    """Returns the topics of all streams; empty when the run is not limited to topics."""
    if scope.topics is None:
        return {}
    return {stream_id: each.topic.name for stream_id, each in topic_streams(image).items()}


def in_scope(metadata: ObjectMetadata, topics: Topics, scope: Scope) -> bool:
    return scope.topics is None or any(scope.includes(topics.get(held.stream_id)) for held in metadata.ranges)


class CollectionCandidate(msgspec.Struct, frozen=True):
    """An object that is worth rewriting: sparse when ``is_sparse``, else small."""

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


Round = tuple[CollectionCandidate, ...]
"""The candidates that are rewritten together."""


def is_worth_a_look(
    kind: ObjectKind | None, estimate: Estimate, threshold: float, target_size_bytes: int
) -> bool:
    """Returns whether the object may turn out to be a candidate once its index is read. Ranges that a trim has cut
    through are taken as dead here, since their blocks may be."""
    return estimate.whole_bytes / _whole(kind, estimate.total_bytes, target_size_bytes) < threshold


def expected_ratio(metadata: ObjectMetadata, estimate: Estimate, target_size_bytes: int) -> float:
    return estimate.live_bytes / _whole(metadata.kind, estimate.total_bytes, target_size_bytes)


def judged(
    source: Source, live: LiveBytes, threshold: float, target_size_bytes: int
) -> CollectionCandidate | None:
    """Returns the object as a candidate, by its exact live bytes; None when it is none."""
    metadata = source.metadata
    ratio = live.live_bytes / _whole(metadata.kind, metadata.size_bytes, target_size_bytes)
    is_sparse = live.live_bytes < threshold * live.block_bytes
    is_small = metadata.kind is ObjectKind.STREAM_SET_OBJECT and metadata.size_bytes < target_size_bytes
    # A ratio may also be low because of a large index, and rewriting would not make that smaller.
    return (
        CollectionCandidate(source, live, ratio, is_sparse)
        if ratio < threshold and (is_sparse or is_small)
        else None
    )


def ordered(candidates: Iterable[CollectionCandidate]) -> list[CollectionCandidate]:
    return sorted(candidates, key=lambda each: (each.ratio, each.metadata.data_time_ms, each.object_id))


def rounds(candidates: Sequence[CollectionCandidate], round_bytes: int, objects_max: int) -> Iterator[Round]:
    """Stream set objects in their order, as many together as the limit of live bytes allows. A larger one is a round by
    itself."""
    return portions(candidates, objects_max, lambda candidate: (candidate.live.live_bytes,), (round_bytes,))


def is_worth_a_round(members: Sequence[CollectionCandidate]) -> bool:
    """False for one small object that has no other object to be merged with."""
    return len(members) > 1 or members[0].is_sparse


def _whole(kind: ObjectKind | None, total_bytes: int, target_size_bytes: int) -> int:
    is_set = kind is ObjectKind.STREAM_SET_OBJECT
    return max(1, total_bytes, target_size_bytes if is_set else 0)
