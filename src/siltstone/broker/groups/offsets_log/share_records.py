"""The records of share groups in ``__consumer_offsets``, byte for byte as Kafka writes them (KIP-932). Pure.

Keys and values are written as those of ``consumer_records`` are.

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

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

import msgspec

from siltstone.broker.groups.offsets_log.consumer_records import PartitionOfId, TargetEpoch, by_topic
from siltstone.broker.groups.offsets_log.fields import DamagedGroupRecord, FieldReader, int16, string
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.malformed import MalformedMessage
from siltstone.kafka_protocol.notation import NO_UUID, Int8, Int32, Int64, Message, Structure, Tag, Uuid

_VALUE_VERSION = 0
_STABLE = 0
_M = TypeVar("_M", bound=Message)


# -- values ----------------------------------------------------------------------------------------------


class ShareSubscription(msgspec.Struct, frozen=True):
    rack_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]


class ShareEpoch(msgspec.Struct, frozen=True):
    epoch: int
    metadata_hash: int


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
SHARE_KEY_VERSIONS: Mapping[int, type[ShareKey]] = {
    10: ShareSubscriptionKey,
    11: ShareEpochKey,
    12: ShareTargetEpochKey,
    13: ShareTargetKey,
    14: ShareAssignmentKey,
    15: SharedTopicsKey,
}
_VERSIONS = {key: version for version, key in SHARE_KEY_VERSIONS.items()}


class ShareRecord(msgspec.Struct, frozen=True):
    """``value``: of the kind that belongs to the key; None deletes it."""

    key: ShareKey
    value: Any


# -- what Kafka calls the values -------------------------------------------------------------------------


class _ShareValue(Message, frozen=True, kw_only=True):
    versions: ClassVar[tuple[int, int]] = (_VALUE_VERSION, _VALUE_VERSION)
    flexible_since: ClassVar[int | None] = _VALUE_VERSION


class _ShareSubscriptionValue(_ShareValue, frozen=True, kw_only=True):
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []


class _ShareEpochValue(_ShareValue, frozen=True, kw_only=True):
    epoch: Int32 = 0
    metadata_hash: Int64 = 0


class _ShareTargetEpochValue(_ShareValue, frozen=True, kw_only=True):
    assignment_epoch: Int32 = 0
    assignment_timestamp: Annotated[Int64, Tag(0)] = 0


class _SharedPartitions(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    partitions: list[Int32] = []


class _ShareTargetValue(_ShareValue, frozen=True, kw_only=True):
    topic_partitions: list[_SharedPartitions] = []


class _ShareAssignmentValue(_ShareValue, frozen=True, kw_only=True):
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = 0
    assigned_partitions: list[_SharedPartitions] = []


class _NamedPartitions(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    topic_name: str = ""
    partitions: list[Int32] = []


class _NamedTopic(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    topic_name: str = ""


class _SharedTopicsValue(_ShareValue, frozen=True, kw_only=True):
    initializing_topics: list[_NamedPartitions] = []
    initialized_topics: list[_NamedPartitions] = []
    deleting_topics: list[_NamedTopic] = []


# -- encode and decode -----------------------------------------------------------------------------------


def encode_share_key(key: ShareKey) -> bytes:
    """Raises TextTooLong."""
    texts = (getattr(key, name) for name in key.__struct_fields__)
    return int16(_VERSIONS[type(key)]) + b"".join(map(string, texts))


def decode_share_key(version: int, reader: FieldReader) -> ShareKey:
    """``reader`` stands behind the version, which is one of SHARE_KEY_VERSIONS. Raises DamagedGroupRecord."""
    kind: Callable[..., ShareKey] = SHARE_KEY_VERSIONS[version]
    key = kind(*(reader.string() for _ in SHARE_KEY_VERSIONS[version].__struct_fields__))
    reader.end()
    return key


def encode_share_value(record: ShareRecord) -> bytes | None:
    """Raises UnencodableMessage for a text that is longer than Kafka's strings."""
    if record.value is None:
        return None
    return int16(_VALUE_VERSION) + encode(_ENCODERS[type(record.key)](record.value), _VALUE_VERSION)


def decode_share_record(key: ShareKey, value: bytes | None) -> ShareRecord:
    """Unknown tagged fields and bytes after the last field are skipped, as in Kafka. Raises DamagedGroupRecord."""
    if value is None:
        return ShareRecord(key, None)
    version = FieldReader(value).int16()
    if version != _VALUE_VERSION:
        raise DamagedGroupRecord(
            f"a record of a share group has version {version}; this program reads {_VALUE_VERSION}"
        )
    return ShareRecord(key, _DECODERS[type(key)](value[2:]))


def _decoded(message: type[_M], body: bytes) -> _M:
    try:
        return decode(message, _VALUE_VERSION, body)
    except MalformedMessage as malformed:
        raise DamagedGroupRecord(f"a record of a share group cannot be read: {malformed}") from malformed


def _partitions(assigned: frozenset[PartitionOfId]) -> list[_SharedPartitions]:
    return [
        _SharedPartitions(topic_id=topic_id, partitions=numbers)
        for topic_id, numbers in by_topic(assigned).items()
    ]


def _assigned(topics: list[_SharedPartitions]) -> frozenset[PartitionOfId]:
    return frozenset((topic.topic_id, number) for topic in topics for number in topic.partitions)


def _subscription(body: bytes) -> ShareSubscription:
    value = _decoded(_ShareSubscriptionValue, body)
    return ShareSubscription(
        value.rack_id, value.client_id, value.client_host, tuple(value.subscribed_topic_names)
    )


def _epoch(body: bytes) -> ShareEpoch:
    value = _decoded(_ShareEpochValue, body)
    return ShareEpoch(value.epoch, value.metadata_hash)


def _target_epoch(body: bytes) -> TargetEpoch:
    value = _decoded(_ShareTargetEpochValue, body)
    return TargetEpoch(value.assignment_epoch, value.assignment_timestamp)


def _target(body: bytes) -> frozenset[PartitionOfId]:
    return _assigned(_decoded(_ShareTargetValue, body).topic_partitions)


def _assignment(body: bytes) -> ShareAssignment:
    value = _decoded(_ShareAssignmentValue, body)
    return ShareAssignment(
        value.member_epoch, value.previous_member_epoch, _assigned(value.assigned_partitions)
    )


def _shared_topics(body: bytes) -> SharedTopics:
    """Topics whose state was still being made count as made: the leaders here make it when it is needed."""
    value = _decoded(_SharedTopicsValue, body)
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


_ENCODERS: Mapping[type[ShareKey], Callable[[Any], _ShareValue]] = {
    ShareSubscriptionKey: lambda value: _ShareSubscriptionValue(
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=list(value.topics),
    ),
    ShareEpochKey: lambda value: _ShareEpochValue(epoch=value.epoch, metadata_hash=value.metadata_hash),
    ShareTargetEpochKey: lambda value: _ShareTargetEpochValue(
        assignment_epoch=value.epoch, assignment_timestamp=value.assigned_ms
    ),
    ShareTargetKey: lambda value: _ShareTargetValue(topic_partitions=_partitions(value)),
    ShareAssignmentKey: lambda value: _ShareAssignmentValue(
        member_epoch=value.epoch,
        previous_member_epoch=value.previous_epoch,
        state=_STABLE,
        assigned_partitions=_partitions(value.assigned),
    ),
    SharedTopicsKey: _shared_topics_value,
}
_DECODERS: Mapping[type[ShareKey], Callable[[bytes], Any]] = {
    ShareSubscriptionKey: _subscription,
    ShareEpochKey: _epoch,
    ShareTargetEpochKey: _target_epoch,
    ShareTargetKey: _target,
    ShareAssignmentKey: _assignment,
    SharedTopicsKey: _shared_topics,
}
