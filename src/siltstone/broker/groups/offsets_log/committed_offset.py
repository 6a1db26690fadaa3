"""How far a group has read a partition: OffsetCommitValue.

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

Version 3 is written; version 1 when the client said how long the offset is to be kept, which no other version can
say (its leader epoch is lost, as in Kafka: clients that still send a retention time send no epoch).
"""

import msgspec

from siltstone.broker.groups.offsets_log.fields import (
    DamagedGroupRecord,
    FieldReader,
    int16,
    int32,
    int64,
    string,
)

VERSION = 3
VERSION_WITH_EXPIRY = 1


class CommittedOffset(msgspec.Struct, frozen=True):
    """``leader_epoch`` -1: not known. ``expires_ms`` None: by the settings."""

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
        return int16(VERSION_WITH_EXPIRY) + offset + metadata + time + expiry
    return int16(VERSION) + int64(committed.offset) + int32(committed.leader_epoch) + metadata + time


def decode_committed_offset(encoded: bytes) -> CommittedOffset:
    """Raises DamagedGroupRecord."""
    reader = FieldReader(encoded)
    version = reader.int16()
    if not 0 <= version <= VERSION:
        raise DamagedGroupRecord(
            f"a committed offset of version {version}; this program reads 0 to {VERSION}"
        )
    offset = reader.int64()
    leader_epoch = reader.int32() if version == VERSION else -1
    metadata, committed_ms = reader.string(), reader.int64()
    expires_ms = reader.int64() if version == VERSION_WITH_EXPIRY else -1
    reader.end()
    return CommittedOffset(
        offset, leader_epoch, metadata, committed_ms, None if expires_ms == -1 else expires_ms
    )
