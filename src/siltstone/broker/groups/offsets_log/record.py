"""The records of ``__consumer_offsets``, byte for byte as Kafka writes them. Integers are big endian; ``fields`` has
the primitive types.

A key says what its record is about, and its version says which kind of key it is. A record without a value is a
tombstone. The newest record of a key counts.

Key of a committed offset (OffsetCommitKey), written in version 1:

====== ============ =========================
order  field        type
====== ============ =========================
1      version      int16, 0 or 1
2      group        string
3      topic        string
4      partition    int32
====== ============ =========================

Its value (OffsetCommitValue):

====== ================= ======================== ==========
order  field             type                     versions
====== ================= ======================== ==========
1      version           int16                    all
2      offset            int64                    0–3
3      leader epoch      int32, -1 unknown        3
4      metadata          string                   0–3
5      commit time       int64, ms                0–3
6      expire time       int64, ms, -1 none       1
====== ================= ======================== ==========

Version 3 is written; version 1 when the client sent a retention time, which no other version has a field for. The
leader epoch is then lost, as in Kafka: clients that still send a retention time send no epoch.

Key of a group (GroupMetadataKey):

====== ============ =========================
1      version      int16, 2
2      group        string
====== ============ =========================

Its value (GroupMetadataValue), a generation of the group as it was when the leader had assigned the partitions:

====== =================== ========================= ==========
order  field               type                      versions
====== =================== ========================= ==========
1      version             int16                     all
2      protocol type       string                    0–3
3      generation          int32                     0–3
4      protocol name       nullable string           0–3
5      leader              nullable string           0–3
6      in this state since int64, ms, -1 unknown     2–3
7      members             int32 count, then each    0–3
====== =================== ========================= ==========

A member in it:

====== =================== ========================= ==========
1      member id           string                    0–3
2      instance id         nullable string           3
3      client id           string                    0–3
4      client host         string                    0–3
5      rebalance timeout   int32, ms                 1–3
6      session timeout     int32, ms                 0–3
7      subscription        bytes                     0–3
8      assignment          bytes                     0–3
====== =================== ========================= ==========

Version 3 is written. A group without members is *Empty*, a group with members is *Stable*; the states of a rebalance
are not written. ``consumer_records`` has the records of consumer groups of KIP-848, ``share_records`` those of share
groups. Other keys of higher versions belong to groups that this program does not serve (KIP-1071); they are kept.
"""

from typing import TypeAlias

import msgspec

from siltstone.broker.groups.offsets_log.consumer_records import CONSUMER_KINDS, ConsumerKey, ConsumerRecord
from siltstone.broker.groups.offsets_log.fields import (
    DamagedGroupRecord,
    FieldReader,
    int16,
    int32,
    int64,
    nullable_string,
    sized_bytes,
    string,
)
from siltstone.broker.groups.offsets_log.keyed_values import RecordKinds
from siltstone.broker.groups.offsets_log.share_records import SHARE_KINDS, ShareKey, ShareRecord

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
OFFSET_VERSION = 3
OFFSET_VERSION_WITH_EXPIRY = 1
GROUP_VERSION = 3
_MEMBER_BYTES_MIN = 18
_KEYED = RecordKinds(*CONSUMER_KINDS, *SHARE_KINDS)

EncodedRecord: TypeAlias = tuple[bytes, bytes | None]


# -- keys ----------------------------------------------------------------------------------------------


class LogProducer(msgspec.Struct, frozen=True):
    """The producer in whose transaction records are written. ``number``: that of the transaction, and
    ``coordinator_epoch`` that of its coordinator; -1 if it is not known."""

    producer_id: int
    epoch: int
    number: int = -1
    coordinator_epoch: int = -1


class OffsetKey(msgspec.Struct, frozen=True):
    group_id: str
    topic: str
    partition: int


class GroupKey(msgspec.Struct, frozen=True):
    group_id: str


class UnknownKey(msgspec.Struct, frozen=True):
    """The key of a record of a kind that this program does not know."""

    version: int


RecordKey: TypeAlias = OffsetKey | GroupKey | ConsumerKey | ShareKey | UnknownKey


def encode_key(key: OffsetKey | GroupKey | ConsumerKey | ShareKey) -> bytes:
    """Raises TextTooLong."""
    if isinstance(key, GroupKey):
        return int16(GROUP_KEY_VERSION) + string(key.group_id)
    if not isinstance(key, OffsetKey):
        return _KEYED.encode_key(key)
    return int16(OFFSET_KEY_VERSION) + string(key.group_id) + string(key.topic) + int32(key.partition)


def decode_key(encoded: bytes) -> RecordKey:
    """Raises DamagedGroupRecord."""
    reader = FieldReader(encoded)
    version = reader.int16()
    if version < 0:
        raise DamagedGroupRecord(f"a key has version {version}, which no Kafka writes")
    key: RecordKey
    if version <= OFFSET_KEY_VERSION:
        key = OffsetKey(reader.string(), reader.string(), reader.int32())
    elif version == GROUP_KEY_VERSION:
        key = GroupKey(reader.string())
    else:
        return _KEYED.decode_key(version, reader) or UnknownKey(version)
    reader.end()
    return key


# -- committed offsets ---------------------------------------------------------------------------------


class CommittedOffset(msgspec.Struct, frozen=True):
    """``leader_epoch`` -1: not known. ``expires_ms`` None: the retention time of the settings applies."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int | None = None


def encode_committed_offset(committed: CommittedOffset) -> bytes:
    """Raises TextTooLong."""
    metadata, time = string(committed.metadata), int64(committed.committed_ms)
    if committed.expires_ms is not None:
        offset, expiry = int64(committed.offset), int64(committed.expires_ms)
        return int16(OFFSET_VERSION_WITH_EXPIRY) + offset + metadata + time + expiry
    return int16(OFFSET_VERSION) + int64(committed.offset) + int32(committed.leader_epoch) + metadata + time


def decode_committed_offset(encoded: bytes) -> CommittedOffset:
    """Raises DamagedGroupRecord."""
    reader = FieldReader(encoded)
    version = reader.int16()
    if not 0 <= version <= OFFSET_VERSION:
        raise DamagedGroupRecord(
            f"a committed offset has version {version}; this program reads 0 to {OFFSET_VERSION}"
        )
    offset = reader.int64()
    leader_epoch = reader.int32() if version == OFFSET_VERSION else -1
    metadata, committed_ms = reader.string(), reader.int64()
    expires_ms = reader.int64() if version == OFFSET_VERSION_WITH_EXPIRY else -1
    reader.end()
    return CommittedOffset(
        offset, leader_epoch, metadata, committed_ms, None if expires_ms == -1 else expires_ms
    )


# -- groups --------------------------------------------------------------------------------------------


class MemberMetadata(msgspec.Struct, frozen=True):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(msgspec.Struct, frozen=True):
    """``protocol_type`` is empty for a simple group. ``state_since_ms`` -1: not known."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: tuple[MemberMetadata, ...] = ()


def encode_group_metadata(metadata: GroupMetadata) -> bytes:
    """Raises TextTooLong."""
    parts = [
        int16(GROUP_VERSION),
        string(metadata.protocol_type),
        int32(metadata.generation),
        nullable_string(metadata.protocol_name),
        nullable_string(metadata.leader_id),
        int64(metadata.state_since_ms),
        int32(len(metadata.members)),
    ]
    for member in metadata.members:
        parts += _encode_member(member)
    return b"".join(parts)


def decode_group_metadata(encoded: bytes) -> GroupMetadata:
    """Raises DamagedGroupRecord."""
    reader = FieldReader(encoded)
    version = reader.int16()
    if not 0 <= version <= GROUP_VERSION:
        raise DamagedGroupRecord(
            f"a group record has version {version}; this program reads 0 to {GROUP_VERSION}"
        )
    metadata = GroupMetadata(
        protocol_type=reader.string(),
        generation=reader.int32(),
        protocol_name=reader.nullable_string(),
        leader_id=reader.nullable_string(),
        state_since_ms=reader.int64() if version >= 2 else -1,
        members=tuple(_decode_member(reader, version) for _ in range(reader.count(_MEMBER_BYTES_MIN))),
    )
    reader.end()
    return metadata


def _encode_member(member: MemberMetadata) -> list[bytes]:
    return [
        string(member.member_id),
        nullable_string(member.instance_id),
        string(member.client_id),
        string(member.client_host),
        int32(member.rebalance_timeout_ms),
        int32(member.session_timeout_ms),
        sized_bytes(member.subscription),
        sized_bytes(member.assignment),
    ]


def _decode_member(reader: FieldReader, version: int) -> MemberMetadata:
    """Version 0 has no rebalance timeout: the session timeout was used for both."""
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    return MemberMetadata(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=reader.sized_bytes(),
        assignment=reader.sized_bytes(),
    )


# -- records -------------------------------------------------------------------------------------------


class OffsetRecord(msgspec.Struct, frozen=True):
    key: OffsetKey
    committed: CommittedOffset | None


class GroupRecord(msgspec.Struct, frozen=True):
    key: GroupKey
    metadata: GroupMetadata | None


Record: TypeAlias = OffsetRecord | GroupRecord | ConsumerRecord | ShareRecord


def encode_record(record: Record) -> EncodedRecord:
    """Raises TextTooLong."""
    key = encode_key(record.key)
    if isinstance(record, OffsetRecord):
        return key, None if record.committed is None else encode_committed_offset(record.committed)
    if isinstance(record, GroupRecord):
        return key, None if record.metadata is None else encode_group_metadata(record.metadata)
    return key, _KEYED.encode_value(record)


def decode_record(encoded: EncodedRecord) -> Record | UnknownKey:
    """Raises DamagedGroupRecord."""
    key, value = decode_key(encoded[0]), encoded[1]
    if isinstance(key, OffsetKey):
        return OffsetRecord(key, None if value is None else decode_committed_offset(value))
    if isinstance(key, GroupKey):
        return GroupRecord(key, None if value is None else decode_group_metadata(value))
    if isinstance(key, UnknownKey):
        return key
    record: Record = _KEYED.decode_record(key, value)
    return record
