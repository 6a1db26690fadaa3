"""Acknowledgements of one partition in a request: checked by themselves, then made a step of the group's progress.

All of a partition's acknowledgements are done, or none. The answer waits until they are durable.
"""

from collections.abc import Sequence
from typing import Protocol

from siltstone.broker.deliveries.steps import Acknowledged, AcknowledgeType, acknowledge, counted_types
from siltstone.broker.error_codes import error_code
from siltstone.broker.shares.shares import Shares
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import SiltstoneError

RENEW_SINCE = 2
"""From this version of both APIs on a member may renew its locks."""


class AskedBatch(Protocol):
    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def acknowledge_types(self) -> list[int]: ...


def checked_batches(version: int, batches: Sequence[AskedBatch]) -> list[Acknowledged] | ErrorCode:
    """Returns the batches as ranges; INVALID_REQUEST unless they are in order and each has one type, or one for each
    offset."""
    types_max = AcknowledgeType.RENEW if version >= RENEW_SINCE else AcknowledgeType.REJECT
    checked: list[Acknowledged] = []
    behind = 0
    for batch in batches:
        first, end, types = batch.first_offset, batch.last_offset + 1, batch.acknowledge_types
        if not behind <= first < end or len(types) not in (1, end - first):
            return ErrorCode.INVALID_REQUEST
        if not all(AcknowledgeType.GAP <= each <= types_max for each in types):
            return ErrorCode.INVALID_REQUEST
        checked.append(Acknowledged(first, end, types))
        behind = end
    return checked


async def acknowledge_batches(
    shares: Shares,
    group_id: str,
    member_id: str,
    topic: Topic,
    index: int,
    version: int,
    batches: Sequence[AskedBatch],
) -> ErrorCode:
    """Returns when the acknowledgements are durable."""
    checked = checked_batches(version, batches)
    if isinstance(checked, ErrorCode):
        return checked
    if not 0 <= index < topic.partition_count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    config = shares.config_of(group_id)
    try:
        partition = await shares.open(group_id, topic, index)
        before = shares.progress(group_id, partition)
        until_ms = shares.lock_end_ms(config)
        after = acknowledge(before, member_id, checked, config.deliveries_max, until_ms)
        if isinstance(after, ErrorCode):
            return after
        durable = shares.put((group_id, topic.id, index), partition, after)
        shares.count_acknowledged(counted_types(checked, before.start_offset), before, after)
        if durable is not None:
            await durable
    except SiltstoneError as failure:
        return error_code(failure)
    return ErrorCode.NONE
