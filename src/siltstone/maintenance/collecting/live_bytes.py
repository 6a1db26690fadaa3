"""What of an object is live. Pure.

From the image alone for whole ranges; a range that a trim has cut through is prorated by its offsets, which is good
enough to say whose index is to be read first. From the index, for each block: it is live when its end lies above the
start offset of its stream, the stream exists and is not deleted, and the image says that this object serves its
range. A block that a trim has cut through is live as a whole.

An object that contradicts the image is neither dead nor a candidate: nothing of it is dropped (rule 4).
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from siltstone.maintenance.planning.columns import ENTRY, live_blocks
from siltstone.maintenance.planning.sources import Source, SourceUnusable
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.metadata.stream_ranges import first_holding, is_live
from siltstone.model.objects import ObjectRange

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
