"""The format of a share group's state in a partition, version 1: a payload of the meta stream, beside snapshots of the
partition.

====== ==== =====================================================================
offset size field (little endian)
====== ==== =====================================================================
0      4    magic "SSG1"
4      4    CRC-32C of all that follows
8      ...  MessagePack of ``ShareChange``
====== ==== =====================================================================

The values are those of Kafka's share coordinator (ShareSnapshotValue and ShareUpdateValue). A *whole* change has all of
the group; a *part* has its start and the batches that differ now; *gone* says that the group has no state any more. A
batch is first offset, last offset (int64 each), state (uint8) and delivery count (uint16). Locks are not in it: after a
crash or a move the records that were locked are available again. A snapshot of the partition holds the groups as they
are then (``partition_snapshot``, version 4), and the changes before it are trimmed.
"""

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData

MAGIC = b"SSG1"
_HEADER = Struct("<4sI")
_CHECKED_FROM = 8
_BATCH = Struct("<qqBH")
_STATES = frozenset({0, 2, 4})


class DamagedShareState(CorruptData):
    """The state of a share group is damaged or of another version."""


class ChangeKind(IntEnum):
    WHOLE = 0
    PART = 1
    GONE = 2


class StateBatch(msgspec.Struct, frozen=True, gc=False):
    """``state``: 0 available, 2 acknowledged, 4 archived."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int


class ShareState(msgspec.Struct, frozen=True, array_like=True):
    """``state_epoch`` rises when somebody sets the start. ``batches``: packed by ``pack_batches``."""

    group_id: str
    state_epoch: int
    leader_epoch: int
    start_offset: int
    batches: bytes = b""


class ShareChange(msgspec.Struct, frozen=True, array_like=True):
    kind: ChangeKind
    state: ShareState


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ShareChange)


def is_share_change(payload: Buffer) -> bool:
    return bytes(memoryview(payload)[: len(MAGIC)]) == MAGIC


def encode_share_change(change: ShareChange) -> bytes:
    payload = bytearray(_HEADER.pack(MAGIC, 0) + _encoder.encode(change))
    payload[4:8] = crc32c((memoryview(payload)[_CHECKED_FROM:],)).to_bytes(4, "little")
    return bytes(payload)


def decode_share_change(payload: Buffer) -> ShareChange:
    """Raises DamagedShareState."""
    view = memoryview(payload)
    if len(view) < _HEADER.size:
        raise DamagedShareState(f"the state of a share group has {len(view)} bytes, fewer than its header")
    magic, checksum = _HEADER.unpack_from(view)
    if magic != MAGIC:
        raise DamagedShareState(f"the state of a share group begins with {magic!r}, not {MAGIC!r}")
    if crc32c((view[_CHECKED_FROM:],)) != checksum:
        raise DamagedShareState("the state of a share group does not match its CRC-32C")
    try:
        change = _decoder.decode(view[_HEADER.size :])
        unpack_batches(change.state.batches)
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedShareState(f"the state of a share group cannot be read: {error}") from None
    return change


def pack_batches(batches: Iterable[StateBatch]) -> bytes:
    return b"".join(
        _BATCH.pack(batch.first_offset, batch.last_offset, batch.state, batch.delivery_count)
        for batch in batches
    )


def unpack_batches(packed: bytes) -> list[StateBatch]:
    """Raises ValueError if the bytes are no whole batches, in order."""
    if len(packed) % _BATCH.size:
        raise ValueError(f"{len(packed)} bytes are no whole number of batches of a share group")
    batches = [StateBatch(*fields) for fields in _BATCH.iter_unpack(packed)]
    end = -1
    for batch in batches:
        if not end < batch.first_offset <= batch.last_offset or batch.state not in _STATES:
            raise ValueError(f"a share group has no such batch: {batch}")
        end = batch.last_offset
    return batches
