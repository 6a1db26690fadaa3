"""Position and ends → the next position of a streaming query. Pure.

A position never goes back: an end that is below it (the owner of a tail cannot be asked) leaves the partition where it
is. A partition that the position does not name begins at offset 0, wherever the query began, because it was made later
[Kafka's connector: KafkaMicroBatchStream].
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

from siltstone.metadata.image import ImageView
from siltstone.metadata.lookup import bytes_between, committed_object, find_ranges
from siltstone.scanning.planning import ScanPartition
from siltstone.scanning.streaming.failures import TopicGone, TopicMadeAnew
from siltstone.scanning.streaming.position import StreamKey, StreamPosition


class LimitKind(Enum):
    ALL = "all"
    OFFSETS = "offsets"
    BYTES = "bytes"


class BatchLimit(msgspec.Struct, frozen=True):
    """The most offsets, or bytes as stored, of one micro-batch."""

    kind: LimitKind = LimitKind.ALL
    count: int = 0


class StreamEnd(msgspec.Struct, frozen=True):
    """A partition of a query, and the end of what can be read of it."""

    of: ScanPartition
    end_offset: int

    @property
    def key(self) -> StreamKey:
        return self.of.topic.topic_id, self.of.partition


def continued(
    start: StreamPosition, ends: Mapping[StreamKey, StreamEnd], image: ImageView, *, fail_on_data_loss: bool
) -> tuple[StreamPosition, list[str]]:
    """Returns the position without the topics and partitions that are gone, and a warning for each of them. With
    ``fail_on_data_loss``, raises TopicGone and TopicMadeAnew instead."""
    topic_ids = {topic_id for topic_id, _ in ends}
    warnings = []
    for topic_id, name in start.names.items():
        if topic_id in topic_ids:
            continue
        failure = _reason(image, name, topic_id)
        if fail_on_data_loss:
            raise failure
        warnings.append(str(failure))
    if not warnings:
        return start, []
    names = {topic_id: name for topic_id, name in start.names.items() if topic_id in topic_ids}
    offsets = {key: offset for key, offset in start.offsets.items() if key[0] in topic_ids}
    return StreamPosition(start.store_id, names, offsets), warnings


def _reason(image: ImageView, name: str, topic_id: str) -> TopicGone | TopicMadeAnew:
    new_id = image.topic_ids.get(name)
    if topic_id not in image.topics and new_id is not None:
        return TopicMadeAnew(name, topic_id, new_id)
    return TopicGone(name, topic_id, is_deleted=topic_id not in image.topics)


def waiting(start: StreamPosition, ends: Mapping[StreamKey, StreamEnd]) -> dict[StreamKey, int]:
    """Returns how many offsets wait in each partition that has some. Offsets below the partition's first one were
    removed and do not count; planning the micro-batch reports them."""
    found = {key: end.end_offset - _next(start, end) for key, end in ends.items()}
    return {key: count for key, count in found.items() if count > 0}


def _next(start: StreamPosition, end: StreamEnd) -> int:
    return max(start.offsets.get(end.key, 0), end.of.start_offset)


def advance(
    start: StreamPosition, ends: Mapping[StreamKey, StreamEnd], limit: BatchLimit, image: ImageView
) -> StreamPosition:
    """Returns the position after the next micro-batch. A limit is shared in proportion to what waits in each partition,
    and each gets at least one offset, so a busy partition does not hold up the others."""
    left = waiting(start, ends)
    offsets = dict(start.offsets)
    shares: Mapping[StreamKey, int] = left
    if limit.kind is LimitKind.OFFSETS:
        shares = _shared(left, limit.count)
    elif limit.kind is LimitKind.BYTES:
        weights = {key: max(1, _waiting_bytes(image, ends[key], count)) for key, count in left.items()}
        shares = {
            key: max(1, left[key] * share // weights[key])
            for key, share in _shared(weights, limit.count).items()
        }
    for key, share in shares.items():
        offsets[key] = _next(start, ends[key]) + min(share, left[key])
    names = dict(start.names) | {key[0]: ends[key].of.topic.name for key in shares}
    return StreamPosition(start.store_id, names, offsets)


class StreamLag(msgspec.Struct, frozen=True):
    """What a query has not read yet: offsets, about how many bytes as stored, and for how many seconds the oldest of
    them has been in the store. Records that are in no object yet are new and count as 0 seconds."""

    records: int = 0
    size_bytes: int = 0
    seconds: float = 0.0


def lag_behind(
    end: StreamPosition, ends: Mapping[StreamKey, StreamEnd], image: ImageView, now_ms: int
) -> StreamLag:
    """Returns the lag of a query that has read everything before ``end``."""
    left = waiting(end, ends)
    size_bytes = since_ms = 0
    for key, count in left.items():
        size_bytes += _waiting_bytes(image, ends[key], count)
        stored_ms = _stored_ms(image, ends[key], ends[key].end_offset - count)
        since_ms = min(since_ms or stored_ms, stored_ms or since_ms)
    seconds = max(0, now_ms - since_ms) / 1000 if since_ms else 0.0
    return StreamLag(sum(left.values()), size_bytes, seconds)


def _waiting_bytes(image: ImageView, end: StreamEnd, count: int) -> int:
    return bytes_between(image, end.of.stream.stream_id, end.end_offset - count, end.end_offset)


def _stored_ms(image: ImageView, end: StreamEnd, offset: int) -> int:
    """Returns when the data at an offset came into the store; 0 while it is in no object."""
    for held in find_ranges(image, end.of.stream.stream_id, offset, end.end_offset):
        metadata = committed_object(image, held.object_id)
        return 0 if metadata is None else metadata.data_time_ms
    return 0


def _shared(weights: Mapping[StreamKey, int], count_max: int) -> dict[StreamKey, int]:
    """Shares of about ``count_max`` in proportion to the weights, at least 1 each and at most the weight."""
    total = sum(weights.values())
    if total <= count_max:
        return dict(weights)
    shares = {key: max(1, count_max * weight // total) for key, weight in weights.items()}
    left = count_max - sum(shares.values())
    for key in sorted(key for key, share in shares.items() if share < weights[key]):
        if left <= 0:
            break
        shares[key] += 1
        left -= 1
    return shares
