"""A generation of a group, as it was when its leader had assigned the partitions: GroupMetadataValue.

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

A member:

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

Version 3 is written. A group without members is empty, one with members is stable: what lies between is not written
down.
"""

import msgspec

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

VERSION = 3
_MEMBER_BYTES_MIN = 18


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
        int16(VERSION),
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
    if not 0 <= version <= VERSION:
        raise DamagedGroupRecord(f"a group of version {version}; this program reads 0 to {VERSION}")
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
    """Before version 1 the rebalance timeout was the session timeout."""
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
