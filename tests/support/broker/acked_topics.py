"""Makes an image with one topic that is kept for its groups: its segments and the progress of the groups are those
that a test wants."""

from collections.abc import Mapping, Sequence

from siltstone.maintenance.retention.groups import GroupProgress, encode_progress, key_of
from siltstone.metadata.entities import PartitionMetadata, StreamMetadata, StreamState, TopicMetadata
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.model.limits import MIB
from siltstone.model.segments import ClosedSegment
from siltstone.offline.topic_streams import TopicStream, topic_streams

TOPIC_ID = "0123456789abcdef" * 2
DATA, META = 1, 2
RECORDS = 100
"""The size of each segment."""

ACK = {"siltstone.retention.ack": "true"}


def registered(*groups: str, **configs: str) -> dict[str, str]:
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    return {**ACK, "siltstone.retention.groups": ",".join(groups), **dotted}


def segments_of(sizes: Sequence[int]) -> tuple[ClosedSegment, ...]:
    return tuple(
        ClosedSegment(at * RECORDS, (at + 1) * RECORDS, size_bytes, 10, 1_000 + at, 1_000 + at, 2_000 + at)
        for at, size_bytes in enumerate(sizes)
    )


def acked_image(
    configs: Mapping[str, str],
    progress: Mapping[str, GroupProgress | bytes] | None = None,
    *,
    sizes: Sequence[int] = (MIB,) * 10,
    start_offset: int = 0,
) -> MetadataImage:
    draft = ImageDraft(MetadataImage())
    end_offset = len(sizes) * RECORDS
    for stream_id, segments in ((DATA, segments_of(sizes)), (META, ())):
        draft.streams[stream_id] = StreamMetadata(
            stream_id, StreamState.CLOSED, 0, 1, start_offset, end_offset, (), (), {}, segments
        )
    draft.topics[TOPIC_ID] = TopicMetadata(
        TOPIC_ID, "flights", (PartitionMetadata(DATA, META),), dict(configs), 1, 0, False
    )
    draft.topic_ids["flights"] = TOPIC_ID
    for group, known in (progress or {}).items():
        draft.keys[key_of(group)] = known if isinstance(known, bytes) else encode_progress(known)
    return draft.frozen(1)


def at(offset: int) -> GroupProgress:
    return GroupProgress({TOPIC_ID: (offset,)})


def data_stream(image: MetadataImage) -> TopicStream:
    return topic_streams(image)[DATA]
