"""The records of consumer groups of KIP-848 in ``__consumer_offsets``, byte for byte as Kafka writes them. Pure.

``keyed_values`` has their form.

======= ================================ ==================================================
version key                              value
======= ================================ ==================================================
3       group                            its epoch; tag 0: hash of its topics
4       group                            none: older brokers wrote the partitions of topics
5       group, member                    the member's subscription
6       group                            epoch of the targets; tag 0: when they were made, ms
7       group, member                    the member's target
8       group, member                    what the member has, and its epoch
16      group, pattern                   the topics that match the pattern
======= ================================ ==================================================

Share groups have other keys (``share_records``); those of streams groups are kept as they are.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeAlias

import msgspec

from siltstone.broker.groups.offsets_log.fields import DamagedGroupRecord
from siltstone.broker.groups.offsets_log.keyed_values import (
    KeyedValue,
    PartitionOfId,
    PartitionsOfTopic,
    RecordKind,
    by_topic,
    partition_rows,
    partitions_in,
)
from siltstone.kafka_protocol.notation import NO_UUID, Bytes, Int8, Int32, Int64, Structure, Tag, Uuid

_STATES_MAX = 2


# -- values ----------------------------------------------------------------------------------------------


class GroupEpoch(msgspec.Struct, frozen=True):
    epoch: int
    metadata_hash: int


class TargetEpoch(msgspec.Struct, frozen=True):
    epoch: int
    assigned_ms: int


class ClassicMember(msgspec.Struct, frozen=True):
    """What a member said that joined by the classic protocol: (name, subscription) of each assignment strategy."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class MemberSubscription(msgspec.Struct, frozen=True):
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    rebalance_timeout_ms: int
    assignor: str | None
    classic: ClassicMember | None = None


class MemberAssignment(msgspec.Struct, frozen=True):
    """``assigned`` and ``revoking``: partition → the member's epoch when it got it."""

    epoch: int
    previous_epoch: int
    state: int
    assigned: Mapping[PartitionOfId, int]
    revoking: Mapping[PartitionOfId, int]


class FoundTopics(msgspec.Struct, frozen=True):
    """``version``: that of Kafka's metadata."""

    topics: tuple[str, ...]
    version: int
    resolved_ms: int


# -- keys and records ------------------------------------------------------------------------------------


class EpochKey(msgspec.Struct, frozen=True):
    group_id: str


class PartitionMetadataKey(msgspec.Struct, frozen=True):
    group_id: str


class TargetEpochKey(msgspec.Struct, frozen=True):
    group_id: str


class SubscriptionKey(msgspec.Struct, frozen=True):
    group_id: str
    member_id: str


class TargetKey(msgspec.Struct, frozen=True):
    group_id: str
    member_id: str


class MemberAssignmentKey(msgspec.Struct, frozen=True):
    group_id: str
    member_id: str


class PatternKey(msgspec.Struct, frozen=True):
    group_id: str
    pattern: str


ConsumerKey: TypeAlias = (
    EpochKey
    | PartitionMetadataKey
    | TargetEpochKey
    | SubscriptionKey
    | TargetKey
    | MemberAssignmentKey
    | PatternKey
)


class EpochRecord(msgspec.Struct, frozen=True):
    key: EpochKey
    value: GroupEpoch | None


class PartitionMetadataRecord(msgspec.Struct, frozen=True):
    """Only ever deleted."""

    key: PartitionMetadataKey
    value: None = None


class SubscriptionRecord(msgspec.Struct, frozen=True):
    key: SubscriptionKey
    value: MemberSubscription | None


class TargetEpochRecord(msgspec.Struct, frozen=True):
    key: TargetEpochKey
    value: TargetEpoch | None


class TargetRecord(msgspec.Struct, frozen=True):
    key: TargetKey
    value: frozenset[PartitionOfId] | None


class MemberAssignmentRecord(msgspec.Struct, frozen=True):
    key: MemberAssignmentKey
    value: MemberAssignment | None


class PatternRecord(msgspec.Struct, frozen=True):
    key: PatternKey
    value: FoundTopics | None


ConsumerRecord: TypeAlias = (
    EpochRecord
    | PartitionMetadataRecord
    | SubscriptionRecord
    | TargetEpochRecord
    | TargetRecord
    | MemberAssignmentRecord
    | PatternRecord
)


# -- what Kafka calls the values -------------------------------------------------------------------------


class _EpochValue(KeyedValue, frozen=True, kw_only=True):
    epoch: Int32 = 0
    metadata_hash: Annotated[Int64, Tag(0)] = 0


class _TargetEpochValue(KeyedValue, frozen=True, kw_only=True):
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0


class _ClassicProtocol(Structure, frozen=True, kw_only=True):
    name: str = ""
    metadata: Bytes = b""


class _ClassicMetadata(Structure, frozen=True, kw_only=True):
    session_timeout_ms: Int32 = 0
    supported_protocols: list[_ClassicProtocol] = []


class _SubscriptionValue(KeyedValue, frozen=True, kw_only=True):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None = None
    classic_member_metadata: Annotated[_ClassicMetadata | None, Tag(0)] = None


class _TargetValue(KeyedValue, frozen=True, kw_only=True):
    topic_partitions: list[PartitionsOfTopic] = []


class _HeldPartitions(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []
    assignment_epochs: Annotated[list[Int32] | None, Tag(0)] = None


class _CurrentValue(KeyedValue, frozen=True, kw_only=True):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[_HeldPartitions] = []
    partitions_pending_revocation: list[_HeldPartitions] = []


class _PatternValue(KeyedValue, frozen=True, kw_only=True):
    topics: list[str] = []
    version: Int64 = 0
    timestamp: Int64 = 0


# -- encode and decode -----------------------------------------------------------------------------------


def _subscription_value(subscription: MemberSubscription) -> _SubscriptionValue:
    classic = subscription.classic
    return _SubscriptionValue(
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topics),
        subscribed_topic_regex=subscription.regex,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        server_assignor=subscription.assignor,
        classic_member_metadata=None
        if classic is None
        else _ClassicMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                _ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
            ],
        ),
    )


def _subscription(value: _SubscriptionValue) -> MemberSubscription:
    classic = value.classic_member_metadata
    return MemberSubscription(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(value.subscribed_topic_names),
        regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMember(
            classic.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols),
        ),
    )


def _current_value(current: MemberAssignment) -> _CurrentValue:
    return _CurrentValue(
        member_epoch=current.epoch,
        previous_member_epoch=current.previous_epoch,
        state=current.state,
        assigned_partitions=_held_value(current.assigned),
        partitions_pending_revocation=_held_value(current.revoking),
    )


def _current(value: _CurrentValue) -> MemberAssignment:
    """Records of Kafka before 4.3 have no epochs of partitions: the member's stands for them."""
    if not 0 <= value.state <= _STATES_MAX:
        raise DamagedGroupRecord(f"a member of a consumer group has state {value.state}, which is not known")
    return MemberAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        value.state,
        _held(value.assigned_partitions, value.member_epoch),
        _held(value.partitions_pending_revocation, value.member_epoch),
    )


def _held_value(held: Mapping[PartitionOfId, int]) -> list[_HeldPartitions]:
    return [
        _HeldPartitions(
            topic_id=topic_id,
            partitions=partitions,
            assignment_epochs=[held[topic_id, partition] for partition in partitions],
        )
        for topic_id, partitions in by_topic(held).items()
    ]


def _held(topics: Iterable[_HeldPartitions], epoch: int) -> dict[PartitionOfId, int]:
    held: dict[PartitionOfId, int] = {}
    for topic in topics:
        known = topic.assignment_epochs
        epochs = [epoch] * len(topic.partitions) if known is None else known
        if len(epochs) != len(topic.partitions):
            raise DamagedGroupRecord(
                f"{len(topic.partitions)} partitions of a member have {len(epochs)} epochs"
            )
        held.update(
            ((topic.topic_id, number), at) for number, at in zip(topic.partitions, epochs, strict=True)
        )
    return held


def target_epoch_kind(version: int, key: type[Any], record: Callable[[Any, Any], Any]) -> RecordKind:
    return RecordKind(
        version,
        key,
        record,
        _TargetEpochValue,
        lambda value: _TargetEpochValue(assignment_epoch=value.epoch, assignment_timestamp=value.assigned_ms),
        lambda value: TargetEpoch(value.assignment_epoch, value.assignment_timestamp),
    )


def target_kind(version: int, key: type[Any], record: Callable[[Any, Any], Any]) -> RecordKind:
    return RecordKind(
        version,
        key,
        record,
        _TargetValue,
        lambda target: _TargetValue(topic_partitions=partition_rows(target)),
        lambda value: partitions_in(value.topic_partitions),
    )


EPOCH = RecordKind(
    3,
    EpochKey,
    EpochRecord,
    _EpochValue,
    lambda value: _EpochValue(epoch=value.epoch, metadata_hash=value.metadata_hash),
    lambda value: GroupEpoch(value.epoch, value.metadata_hash),
)
PARTITION_METADATA = RecordKind(4, PartitionMetadataKey, PartitionMetadataRecord)
SUBSCRIPTION = RecordKind(
    5, SubscriptionKey, SubscriptionRecord, _SubscriptionValue, _subscription_value, _subscription
)
TARGET_EPOCH = target_epoch_kind(6, TargetEpochKey, TargetEpochRecord)
TARGET = target_kind(7, TargetKey, TargetRecord)
CURRENT = RecordKind(8, MemberAssignmentKey, MemberAssignmentRecord, _CurrentValue, _current_value, _current)
PATTERN = RecordKind(
    16,
    PatternKey,
    PatternRecord,
    _PatternValue,
    lambda value: _PatternValue(
        topics=list(value.topics), version=value.version, timestamp=value.resolved_ms
    ),
    lambda value: FoundTopics(tuple(value.topics), value.version, value.timestamp),
)
CONSUMER_KINDS = (EPOCH, PARTITION_METADATA, SUBSCRIPTION, TARGET_EPOCH, TARGET, CURRENT, PATTERN)
