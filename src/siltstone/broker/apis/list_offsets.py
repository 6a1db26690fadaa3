"""ListOffsets: the offset at an end of a partition, or of the first record at or after a time (items 35 and 36).

========= ======= =====================================================================================
timestamp version answer
========= ======= =====================================================================================
≥ 0       all     first record of that time or later; offset -1 when there is none
-1        all     high watermark
-2        all     log start
-3        7       first record with the largest timestamp
-4        8       earliest on the broker's own disks: log start, as nothing is tiered
-5        9       latest in tiered storage: none
-6        11      earliest that is still to be tiered: none
========= ======= =====================================================================================

A client that reads committed records gets the last stable offset instead of the high watermark, and no record from
there on.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from siltstone.broker.error_codes import error_code
from siltstone.broker.fetching.wanted import leader_epoch_error, opening_error
from siltstone.broker.partitions.partition import Partition
from siltstone.broker.partitions.time_lookup import (
    OnDamage,
    TimedOffset,
    offset_for_time,
    offset_of_newest_time,
)
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from siltstone.metadata.refusals import NotLeader
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import HAND_OVER_MS_MAX
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.turns import side_by_side
from siltstone.stream_engine.errors import DamagedRange

NONE_FOUND = TimedOffset(-1, -1)
READ_COMMITTED = 1
LATEST, NEWEST_TIME = -1, -3


async def handle_list_offsets(
    parts: BrokerParts, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    asked_twice = _asked_twice(request)
    reads_committed = request.isolation_level == READ_COMMITTED
    topics = [
        await _topic(parts, context.api_version, topic, asked_twice, reads_committed)
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)


def _asked_twice(request: ListOffsetsRequest) -> set[tuple[str, int]]:
    seen: set[tuple[str, int]] = set()
    twice: set[tuple[str, int]] = set()
    for topic in request.topics:
        for partition in topic.partitions:
            key = (topic.name, partition.partition_index)
            (twice if key in seen else seen).add(key)
    return twice


async def _topic(
    parts: BrokerParts,
    version: int,
    asked: ListOffsetsTopic,
    asked_twice: set[tuple[str, int]],
    reads_committed: bool,
) -> ListOffsetsTopicResponse:
    def answer(partition: ListOffsetsPartition) -> Awaitable[ListOffsetsPartitionResponse]:
        is_twice = (asked.name, partition.partition_index) in asked_twice
        if is_twice:
            return _refused_later(partition, ErrorCode.INVALID_REQUEST)
        return _partition(parts, version, asked.name, partition, reads_committed)

    return ListOffsetsTopicResponse(name=asked.name, partitions=await side_by_side(answer, asked.partitions))


async def _partition(
    parts: BrokerParts, version: int, topic_name: str, asked: ListOffsetsPartition, reads_committed: bool
) -> ListOffsetsPartitionResponse:
    try:
        topic = parts.topics.by_name(topic_name)
        if topic is None or not 0 <= asked.partition_index < topic.partition_count:
            return _refused(asked, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = await _opened(parts, topic, asked)
        if isinstance(partition, ErrorCode):
            return _refused(asked, partition)
        if (lookup := _lookup(version, asked.timestamp)) is None:
            return _refused(asked, ErrorCode.UNSUPPORTED_VERSION)
        on_damage = _on_damage(parts, topic, asked.partition_index)
        found = await lookup(partition, parts.record_calls, on_damage)
        parts.cluster.check_serves()  # another node may have changed the partition meanwhile (N22)
        await _check_knows_its_end(partition)
        if reads_committed:
            found = _committed(partition, asked.timestamp, found)
        return _found(asked, partition, found)
    except SiltstoneError as failure:
        if isinstance(failure, DamagedRange):
            parts.partitions.damage.refused(f"{topic_name}-{asked.partition_index}", failure)
        return _refused(asked, error_code(failure))


async def _check_knows_its_end(partition: Partition) -> None:
    """Waits while the partition may be led elsewhere. Raises NotLeader."""
    if not partition.knows_its_end:
        await partition.wait_while_held(HAND_OVER_MS_MAX)
    if not partition.knows_its_end:
        raise NotLeader("the partition was handed over meanwhile, or may have been: ask again")


async def _opened(parts: BrokerParts, topic: Topic, asked: ListOffsetsPartition) -> Partition | ErrorCode:
    """Returns the partition, or the error if it cannot be opened here or the client's leader epoch is not the current
    one."""
    try:
        partition = await parts.partitions.open(topic, asked.partition_index)
    except SiltstoneError as failure:
        known_epoch = parts.partitions.leader_epoch(topic, asked.partition_index)
        return opening_error(failure, known_epoch, asked.current_leader_epoch)
    error = leader_epoch_error(partition.leader_epoch, asked.current_leader_epoch)
    return partition if error is ErrorCode.NONE else error


def _committed(partition: Partition, timestamp: int, found: TimedOffset) -> TimedOffset:
    """Returns what a client finds that reads committed records."""
    stable_offset = partition.last_stable_offset
    if timestamp == LATEST:
        return TimedOffset(stable_offset, -1)
    is_of_a_record = timestamp >= 0 or timestamp == NEWEST_TIME
    return NONE_FOUND if is_of_a_record and found.offset >= stable_offset else found


def _on_damage(parts: BrokerParts, topic: Topic, index: int) -> OnDamage | None:
    return (
        partial(parts.partitions.damage.skipping, f"{topic.name}-{index}")
        if topic.config.skips_damage
        else None
    )


async def _refused_later(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return _refused(asked, error)


def _refused(asked: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=error)


def _found(
    asked: ListOffsetsPartition, partition: Partition, found: TimedOffset
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=partition.epoch_of(found.offset) if found.offset >= 0 else -1,
    )


Lookup = Callable[[Partition, BlockingCalls, OnDamage | None], Awaitable[TimedOffset]]


async def _latest(partition: Partition, _: BlockingCalls, __: OnDamage | None) -> TimedOffset:
    return TimedOffset(partition.high_watermark, -1)


async def _earliest(partition: Partition, _: BlockingCalls, __: OnDamage | None) -> TimedOffset:
    return TimedOffset(partition.log_start_offset, -1)


async def _newest(partition: Partition, calls: BlockingCalls, on_damage: OnDamage | None) -> TimedOffset:
    return await offset_of_newest_time(partition, calls, on_damage) or NONE_FOUND


async def _none(_: Partition, __: BlockingCalls, ___: OnDamage | None) -> TimedOffset:
    return NONE_FOUND


SPECIAL: dict[int, tuple[int, Lookup]] = {
    LATEST: (0, _latest),
    -2: (0, _earliest),
    NEWEST_TIME: (7, _newest),
    -4: (8, _earliest),
    -5: (9, _none),
    -6: (11, _none),
}
"""Special timestamp → the first version that has it, and its lookup."""


def _lookup(version: int, timestamp_ms: int) -> Lookup | None:
    if timestamp_ms >= 0:
        return partial(_at_time, timestamp_ms)
    since, lookup = SPECIAL.get(timestamp_ms, (version + 1, _none))
    return lookup if version >= since else None


async def _at_time(
    timestamp_ms: int, partition: Partition, calls: BlockingCalls, on_damage: OnDamage | None
) -> TimedOffset:
    return await offset_for_time(partition, timestamp_ms, calls, on_damage) or NONE_FOUND
