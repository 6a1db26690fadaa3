"""The records of share groups in ``__consumer_offsets``, byte for byte as Kafka writes them (KIP-932). Pure.

``keyed_values`` has their form.

======= ================================ ==================================================
version key                              value
======= ================================ ==================================================
10      group, member                    what the member subscribes to
11      group                            its epoch, and the hash of its topics
12      group                            epoch of the targets; tag 0: when they were made, ms
13      group, member                    the member's target
14      group, member                    what the member has, and its epoch
15      group                            the partitions in which the group has a state
======= ================================ ==================================================
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from siltstone.broker.groups.offsets_log.consumer_records import (
    GroupEpoch,
    target_epoch_kind,
    target_kind,
)
from siltstone.broker.groups.offsets_log.keyed_values import (
    KeyedValue,
    PartitionOfId,
    PartitionsOfTopic,
    RecordKind,
    partition_rows,
    partitions_in,
)
from siltstone.kafka_protocol.notation import NO_UUID, Int8, Int32, Int64, Structure, Uuid

_STABLE = 0


# -- values ----------------------------------------------------------------------------------------------


class ShareSubscription(msgspec.Struct, frozen=True):
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]


ShareEpoch: TypeAlias = GroupEpoch


class ShareAssignment(msgspec.Struct, frozen=True):
    epoch: int
    previous_epoch: int
    assigned: frozenset[PartitionOfId]


class SharedTopic(msgspec.Struct, frozen=True):
    name: str
    partitions: tuple[int, ...]


SharedTopics: TypeAlias = Mapping[bytes, SharedTopic]
"""Topic id → its partitions in which a group may have a state."""


# -- keys and records ------------------------------------------------------------------------------------


class ShareSubscriptionKey(msgspec.Struct, frozen=True):
    group_id: str
    member_id: str


class ShareEpochKey(msgspec.Struct, frozen=True):
    group_id: str


class ShareTargetEpochKey(msgspec.Struct, frozen=True):
    group_id: str


class ShareTargetKey(msgspec.Struct, frozen=True):
    group_id: str
    member_id: str


class ShareAssignmentKey(msgspec.Struct, frozen=True):
    group_id: str
    member_id: str


class SharedTopicsKey(msgspec.Struct, frozen=True):
    group_id: str


ShareKey: TypeAlias = (
    ShareSubscriptionKey
    | ShareEpochKey
    | ShareTargetEpochKey
    | ShareTargetKey
    | ShareAssignmentKey
    | SharedTopicsKey
)


class ShareRecord(msgspec.Struct, frozen=True):
    """``value``: of the kind that belongs to the key; None deletes it."""

    key: ShareKey
    value: Any


# -- what Kafka calls the values -------------------------------------------------------------------------


class _ShareSubscriptionValue(KeyedValue, frozen=True, kw_only=True):
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []


class _ShareEpochValue(KeyedValue, frozen=True, kw_only=True):
    epoch: Int32 = 0
    metadata_hash: Int64 = 0


class _ShareAssignmentValue(KeyedValue, frozen=True, kw_only=True):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[PartitionsOfTopic] = []


class _NamedPartitions(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    topic_name: str = ""
    partitions: list[Int32] = []


class _NamedTopic(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    topic_name: str = ""


class _SharedTopicsValue(KeyedValue, frozen=True, kw_only=True):
    initializing_topics: list[_NamedPartitions] = []
    initialized_topics: list[_NamedPartitions] = []
    deleting_topics: list[_NamedTopic] = []


# -- encode and decode -----------------------------------------------------------------------------------


def _shared_topics(value: _SharedTopicsValue) -> SharedTopics:
    """Topics whose state was still being made count as made: the leaders here make it when it is needed."""
    return {
        topic.topic_id: SharedTopic(topic.topic_name, tuple(sorted(topic.partitions)))
        for topic in (*value.initializing_topics, *value.initialized_topics)
    }


def _shared_topics_value(topics: SharedTopics) -> _SharedTopicsValue:
    return _SharedTopicsValue(
        initialized_topics=[
            _NamedPartitions(topic_id=topic_id, topic_name=topic.name, partitions=list(topic.partitions))
            for topic_id, topic in sorted(topics.items())
        ]
    )


SHARE_SUBSCRIPTION = RecordKind(
    10,
    ShareSubscriptionKey,
    ShareRecord,
    _ShareSubscriptionValue,
    lambda value: _ShareSubscriptionValue(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=list(value.topics),
    ),
    lambda value: ShareSubscription(
        value.rack_id, value.client_id, value.client_host, tuple(value.subscribed_topic_names)
    ),
)
SHARE_EPOCH = RecordKind(
    11,
    ShareEpochKey,
    ShareRecord,
    _ShareEpochValue,
    lambda value: _ShareEpochValue(epoch=value.epoch, metadata_hash=value.metadata_hash),
    lambda value: ShareEpoch(value.epoch, value.metadata_hash),
)
SHARE_TARGET_EPOCH = target_epoch_kind(12, ShareTargetEpochKey, ShareRecord)
SHARE_TARGET = target_kind(13, ShareTargetKey, ShareRecord)
SHARE_CURRENT = RecordKind(
    14,
    ShareAssignmentKey,
    ShareRecord,
    _ShareAssignmentValue,
    lambda value: _ShareAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=_STABLE,
        assigned_partitions=partition_rows(value.assigned),
    ),
    lambda value: ShareAssignment(
        value.member_epoch, value.previous_member_epoch, partitions_in(value.assigned_partitions)
    ),
)
SHARED_TOPICS = RecordKind(
    15, SharedTopicsKey, ShareRecord, _SharedTopicsValue, _shared_topics_value, _shared_topics
)
SHARE_KINDS = (
    SHARE_SUBSCRIPTION,
    SHARE_EPOCH,
    SHARE_TARGET_EPOCH,
    SHARE_TARGET,
    SHARE_CURRENT,
    SHARED_TOPICS,
)
