"""A record of ``__consumer_offsets`` as a value: key and value, or key and nothing (a tombstone)."""

from typing import TypeAlias

import msgspec

from siltstone.broker.groups.offsets_log.committed_offset import (
    CommittedOffset,
    decode_committed_offset,
    encode_committed_offset,
)
from siltstone.broker.groups.offsets_log.group_metadata import (
    GroupMetadata,
    decode_group_metadata,
    encode_group_metadata,
)
from siltstone.broker.groups.offsets_log.keys import GroupKey, OffsetKey, UnknownKey, decode_key, encode_key

EncodedRecord: TypeAlias = tuple[bytes, bytes | None]


class OffsetRecord(msgspec.Struct, frozen=True):
    key: OffsetKey
    committed: CommittedOffset | None


class GroupRecord(msgspec.Struct, frozen=True):
    key: GroupKey
    metadata: GroupMetadata | None


Record: TypeAlias = OffsetRecord | GroupRecord


def encode_record(record: Record) -> EncodedRecord:
    """Raises TextTooLong."""
    key = encode_key(record.key)
    if isinstance(record, OffsetRecord):
        return key, None if record.committed is None else encode_committed_offset(record.committed)
    return key, None if record.metadata is None else encode_group_metadata(record.metadata)


def decode_record(encoded: EncodedRecord) -> Record | UnknownKey:
    """Raises DamagedGroupRecord."""
    key, value = decode_key(encoded[0]), encoded[1]
    if isinstance(key, OffsetKey):
        return OffsetRecord(key, None if value is None else decode_committed_offset(value))
    if isinstance(key, GroupKey):
        return GroupRecord(key, None if value is None else decode_group_metadata(value))
    return key
