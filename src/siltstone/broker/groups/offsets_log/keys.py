"""Keys of ``__consumer_offsets``. The version in front tells the kind.

Offset of a partition (OffsetCommitKey), written with version 1:

====== ============ =========================
order  field        type
====== ============ =========================
1      version      int16, 0 or 1
2      group        string
3      topic        string
4      partition    int32
====== ============ =========================

State of a group (GroupMetadataKey):

====== ============ =========================
1      version      int16, 2
2      group        string
====== ============ =========================

Higher versions are groups of the newer protocol (KIP-848 and on), which this program does not serve.
"""

from typing import TypeAlias

import msgspec

from siltstone.broker.groups.offsets_log.fields import DamagedGroupRecord, FieldReader, int16, int32, string

OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2


class OffsetKey(msgspec.Struct, frozen=True):
    group_id: str
    topic: str
    partition: int


class GroupKey(msgspec.Struct, frozen=True):
    group_id: str


class UnknownKey(msgspec.Struct, frozen=True):
    """A kind of record that this program does not know, or not yet."""

    version: int


RecordKey: TypeAlias = OffsetKey | GroupKey | UnknownKey


def encode_key(key: OffsetKey | GroupKey) -> bytes:
    """Raises TextTooLong."""
    if isinstance(key, GroupKey):
        return int16(GROUP_KEY_VERSION) + string(key.group_id)
    return int16(OFFSET_KEY_VERSION) + string(key.group_id) + string(key.topic) + int32(key.partition)


def decode_key(encoded: bytes) -> RecordKey:
    """Raises DamagedGroupRecord."""
    reader = FieldReader(encoded)
    version = reader.int16()
    if version < 0:
        raise DamagedGroupRecord(f"a key of version {version}")
    key: RecordKey
    if version <= OFFSET_KEY_VERSION:
        key = OffsetKey(reader.string(), reader.string(), reader.int32())
    elif version == GROUP_KEY_VERSION:
        key = GroupKey(reader.string())
    else:
        return UnknownKey(version)
    reader.end()
    return key
