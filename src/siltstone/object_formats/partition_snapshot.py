"""The format of a partition's snapshot, version 5. The payload of each record of the meta stream is one snapshot, a
page of aborted transactions (``aborted_page``), or a change of a share group (``share_state``).

====== ==== =====================================================================
offset size field (little endian)
====== ==== =====================================================================
0      4    magic "SPS5"
4      4    CRC-32C of all that follows
8      8    next offset of the data stream: the snapshot covers the batches before it
16     ...  MessagePack of ``SnapshotBody``
====== ==== =====================================================================

A snapshot holds only what the headers and the transaction markers of the batches say, so without one the broker reads
the batches again. Only the share groups are nowhere else: a snapshot has them as the changes before it left them. The
broker uses the newest snapshot and trims older ones. Version 4, "SPS4", has no share groups: the first six fields of
the body. Version 3, "SPS3", names no pages either: the first five. Version 2, "SPS2", has no transactions: the first
four fields of each producer, and the first four of the body. Each is still written where it suffices, so that an older
broker reads it. Version 1, "SPS1", has no segments, and can be read.
"""

from collections.abc import Iterable
from struct import Struct

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData
from siltstone.model.limits import TIME_INDEX_INTERVAL_BYTES
from siltstone.model.record_batch import NO_TIMESTAMP
from siltstone.model.segments import ActiveSegment, ClosedSegment
from siltstone.object_formats.share_state import ShareState, unpack_batches

MAGIC = b"SPS5"
MAGIC_V4 = b"SPS4"
MAGIC_V3 = b"SPS3"
MAGIC_V2 = b"SPS2"
MAGIC_V1 = b"SPS1"
_HEADER = Struct("<4sIQ")
_CHECKED_FROM = 8
_TRIPLE = Struct("<qqq")


class DamagedSnapshot(CorruptData):
    """A partition's snapshot is damaged or of another version."""


class SequencedBatch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``append_time_ms`` is -1 unless the topic has LogAppendTime."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    append_time_ms: int


class ProducerEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``batches`` are the last ones of ``epoch``, oldest first; there are none after a marker that raised the epoch.
    ``seen_ms`` is when the last batch or marker was appended. ``coordinator_epoch`` is that of the last marker, -1 if
    there was none. ``open_from`` is the first offset of the open transaction, -1 if none is open; ``open_number`` the
    number of that transaction at its coordinator, or of the one that the last marker has ended, -1 if it is not
    known."""

    producer_id: int
    epoch: int
    seen_ms: int
    batches: tuple[SequencedBatch, ...]
    coordinator_epoch: int = -1
    open_from: int = -1
    open_number: int = -1

    @property
    def is_open(self) -> bool:
        return self.open_from >= 0


class TimeEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    timestamp_ms: int
    offset: int


NOTHING_NEWEST = TimeEntry(NO_TIMESTAMP, -1)


class TimeIndexState(msgspec.Struct, frozen=True, array_like=True):
    """A whole index, for a snapshot. ``bytes_since_entry`` were appended after the last entry was made."""

    entries: tuple[TimeEntry, ...] = ()
    newest: TimeEntry = NOTHING_NEWEST
    interval_bytes: int = TIME_INDEX_INTERVAL_BYTES
    bytes_since_entry: int = 0


class AbortedTransaction(msgspec.Struct, frozen=True, array_like=True, gc=False):
    producer_id: int
    first_offset: int
    marker_offset: int


class AbortedPage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``meta_offset`` is that of the page in the meta stream, ``marker_offset`` that of the marker of its last
    transaction."""

    meta_offset: int
    marker_offset: int


class SnapshotBody(msgspec.Struct, frozen=True, array_like=True):
    """``active`` is the active segment; None in version 1. ``unwritten`` are the closed segments, oldest first, that
    may not be recorded in the metadata yet. ``aborted`` are the aborted transactions, packed by ``pack_aborted``,
    without the older ones that are in ``pages``. ``shares`` are the share groups."""

    producers: tuple[ProducerEntry, ...]
    times: TimeIndexState
    active: ActiveSegment | None = None
    unwritten: tuple[ClosedSegment, ...] = ()
    aborted: bytes = b""
    pages: tuple[AbortedPage, ...] = ()
    shares: tuple[ShareState, ...] = ()

    @property
    def has_transactions(self) -> bool:
        marked = (entry.is_open or entry.coordinator_epoch >= 0 for entry in self.producers)
        return bool(self.aborted) or any(marked)

    def pages_from(self, meta_start_offset: int) -> list[AbortedPage]:
        """Returns the pages that the meta stream still holds. The others have no transaction that a reader needs: the
        stream is trimmed to the oldest page with a marker that the log still holds."""
        return [page for page in self.pages if page.meta_offset >= meta_start_offset]

    def aborted_transactions(self) -> list[AbortedTransaction]:
        return unpack_aborted(self.aborted)


class PartitionSnapshot(msgspec.Struct, frozen=True):
    next_offset: int
    body: SnapshotBody


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SnapshotBody)


def encode_snapshot(snapshot: PartitionSnapshot) -> bytes:
    if snapshot.body.shares:
        magic, body = MAGIC, _encoder.encode(snapshot.body)
    elif snapshot.body.pages:
        magic, body = MAGIC_V4, _encoder.encode((*_fields_of_version_3(snapshot.body), snapshot.body.pages))
    elif snapshot.body.has_transactions:
        magic, body = MAGIC_V3, _encoder.encode(_fields_of_version_3(snapshot.body))
    else:
        magic, body = MAGIC_V2, _encoder.encode(_fields_of_version_2(snapshot.body))
    payload = bytearray(_HEADER.pack(magic, 0, snapshot.next_offset) + body)
    payload[4:8] = crc32c((memoryview(payload)[_CHECKED_FROM:],)).to_bytes(4, "little")
    return bytes(payload)


def _fields_of_version_3(body: SnapshotBody) -> tuple[object, ...]:
    return body.producers, body.times, body.active, body.unwritten, body.aborted


def _fields_of_version_2(body: SnapshotBody) -> tuple[object, ...]:
    producers = [(entry.producer_id, entry.epoch, entry.seen_ms, entry.batches) for entry in body.producers]
    return producers, body.times, body.active, body.unwritten


def decode_snapshot(payload: Buffer) -> PartitionSnapshot:
    """Raises DamagedSnapshot."""
    view = memoryview(payload)
    if len(view) < _HEADER.size:
        raise DamagedSnapshot(
            f"a partition's snapshot has {len(view)} bytes, fewer than its header of {_HEADER.size}"
        )
    magic, checksum, next_offset = _HEADER.unpack_from(view)
    if magic not in (MAGIC, MAGIC_V4, MAGIC_V3, MAGIC_V2, MAGIC_V1):
        raise DamagedSnapshot(f"a partition's snapshot begins with {magic!r}, not {MAGIC!r}")
    if crc32c((view[_CHECKED_FROM:],)) != checksum:
        raise DamagedSnapshot("a partition's snapshot does not match its CRC-32C")
    try:
        body = _decoder.decode(view[_HEADER.size :])
        body.aborted_transactions()
        for share in body.shares:
            unpack_batches(share.batches)
        return PartitionSnapshot(next_offset, body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedSnapshot(f"a partition's snapshot cannot be read: {error}") from None


def with_pages(snapshot: PartitionSnapshot, packed: Iterable[bytes]) -> PartitionSnapshot:
    """Returns the snapshot with the transactions of its pages before its own. ``packed``: the pages, in order."""
    aborted = b"".join((*packed, snapshot.body.aborted))
    return msgspec.structs.replace(snapshot, body=msgspec.structs.replace(snapshot.body, aborted=aborted))


def pack_aborted(entries: Iterable[AbortedTransaction]) -> bytes:
    """Each entry is three little-endian int64: producer id, first offset, marker offset."""
    return b"".join(
        _TRIPLE.pack(entry.producer_id, entry.first_offset, entry.marker_offset) for entry in entries
    )


def unpack_aborted(packed: bytes) -> list[AbortedTransaction]:
    """Raises ValueError if the bytes are no whole entries."""
    if len(packed) % _TRIPLE.size:
        raise ValueError(f"{len(packed)} bytes are no whole number of aborted transactions")
    return [AbortedTransaction(*triple) for triple in _TRIPLE.iter_unpack(packed)]
