"""``ScanUnit`` is the input of one task of a scan, as bytes.

A unit names everything that its reader needs, so the reader needs the buckets (or, for a tail piece, the broker), but
no metadata. A reader of another version of this program refuses a unit by its ``version``.
"""

import msgspec

from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.request import Isolation, TimeRange
from siltstone.value_formats.value_format import ValueFormat

UNIT_VERSION = 4

Aborted = tuple[int, int, int]
"""An aborted transaction: its producer id, and the offsets from its first batch to its marker."""


class ScanPiece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The offsets [start, end) of a partition's data stream; the object holds all of them. ``object_bytes`` is the
    size of the object, ``size_bytes`` about how many of these bytes the piece has. Blocks whose largest timestamp is
    below ``passed_over_ms`` are not read: none of their records is wanted. ``copies``: the further buckets in which the
    object is. ``aborted``: the transactions whose batches are left out."""

    topic: str
    partition: int
    stream_id: int
    object_id: int
    bucket_id: int
    object_bytes: int
    start_offset: int
    end_offset: int
    size_bytes: int
    passed_over_ms: int | None = None
    copies: tuple[int, ...] = ()
    aborted: tuple[Aborted, ...] = ()

    @property
    def bucket_ids(self) -> tuple[int, ...]:
        return (self.bucket_id, *self.copies)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class TailPiece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The offsets [start, end) that were in no object when the scan was planned. The broker of ``node_id`` at
    ``address`` has them, and its cluster id is ``cluster_id``; ``topic_id`` is 32 hex digits. ``listeners`` are all of
    that broker, a name and an address each: a task may have other settings than the driver, and these name one."""

    topic: str
    topic_id: str
    partition: int
    stream_id: int
    node_id: int
    address: str
    cluster_id: str
    start_offset: int
    end_offset: int
    listeners: dict[str, str] = {}

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def address_at(self, listener: str) -> str | None:
        """Returns where the broker is by the listener of that name, "" being the one of the plan; None: it has none."""
        return self.listeners.get(listener) if listener else self.address


class ScanUnit(msgspec.Struct, frozen=True):
    """Either ``pieces`` or ``tail_pieces`` is empty. ``lease_until_ms``: until when the objects are kept for this scan;
    0: no longer than the grace period of destroyed objects. ``rows_max``: the reader may stop after so many rows; 0: it
    reads all."""

    store_id: str
    columns: tuple[str, ...]
    bucket_urls: dict[int, str]
    planned_ms: int
    lease_until_ms: int
    pieces: tuple[ScanPiece, ...] = ()
    tail_pieces: tuple[TailPiece, ...] = ()
    times: TimeRange | None = None
    value_format: ValueFormat | None = None
    isolation: Isolation = Isolation.COMMITTED
    rows_max: int = 0
    version: int = UNIT_VERSION

    @property
    def size_bytes(self) -> int:
        return sum(piece.size_bytes for piece in self.pieces)

    @property
    def offset_count(self) -> int:
        held = sum(piece.end_offset - piece.start_offset for piece in self.pieces)
        return held + sum(piece.end_offset - piece.start_offset for piece in self.tail_pieces)


class _Versioned(msgspec.Struct):
    version: int


def encode_unit(unit: ScanUnit) -> bytes:
    return msgspec.msgpack.encode(unit)


def decode_unit(data: bytes) -> ScanUnit:
    """Raises ScanRefused for a unit of another version."""
    version = msgspec.msgpack.decode(data, type=_Versioned).version
    if version != UNIT_VERSION:
        raise ScanRefused(
            f"this scan was planned by another version of siltstone (unit version {version}, this one reads"
            f" {UNIT_VERSION}): install one version on the driver and all executors"
        )
    return msgspec.msgpack.decode(data, type=ScanUnit)
