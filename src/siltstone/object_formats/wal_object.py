"""WAL object, version 2: one object of a write-ahead log that lies in a bucket.

Little endian. The whole object is ``header | body``.

====== ==== =======================================================================
offset size field
====== ==== =======================================================================
0      4    magic "SWLO"
4      2    format version, 2
6      2    kind: 1 claim, 2 bulk, 3 seal
8      16   store id
24     8    node id: whose log this is
32     8    node epoch of the life in whose part of the log the object lies
40     16   incarnation of the process that put it, so no two processes put equal bytes
56     8    seq: its number in that life, from 0
64     8    log position of the first record; of a claim or a seal: the end of the log before it
72     8    trimmed position: the log below it is committed
80     8    kept epoch  } every object below (kept epoch, kept seq) holds nothing but
88     8    kept seq    } committed records, or was never acknowledged
96     8    answered seq: every object of this life below it was acknowledged before
104    8    body length in bytes
112    4    CRC-32C of the body
116    4    CRC-32C of bytes 0–115
====== ==== =======================================================================

Its key is ``wal/<2 hex digits of a hash of the node id>/<node id>/<node epoch, 20 digits>/<seq, 20 digits>``, and every
object is put only if there is none at its key. That is the fence: a node that takes the log over puts a *seal* at the
first free seq of each life, and the next object of that life can never be acknowledged.

====== ==============================================================================================================
kind   body
====== ==============================================================================================================
claim  the identity of the log (``identity``): at seq 0, before the life opens a stream, and at its clean end
bulk   records as in a log file (``log_file``) of the same version, possibly none
seal   node id, node epoch, milliseconds since 1970, 8 bytes each: which process took the log over, and when
====== ==============================================================================================================

No claim and no bulk has the size of a seal, so a listing shows where a seal may be.
"""

import re
from enum import IntEnum
from hashlib import blake2b
from struct import Struct

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.model.buffers import Buffer, Buffers, total_bytes
from siltstone.object_formats.log_file import DamagedWal, WalRecord, decode_record, unknown_version

WAL_PREFIX = "wal/"
"""What the keys of all write-ahead logs of a bucket begin with."""

WAL_OBJECT_MAGIC = b"SWLO"
WAL_OBJECT_VERSION = 2
_HEADER = Struct("<4sHH16sQQ16sQQQQQQQI")
_CRC = Struct("<I")
WAL_OBJECT_HEADER_BYTES = _HEADER.size + _CRC.size
_SEAL = Struct("<QQQ")
SEAL_BYTES = WAL_OBJECT_HEADER_BYTES + _SEAL.size
assert (WAL_OBJECT_HEADER_BYTES, SEAL_BYTES) == (120, 144)
_KEY = re.compile(r"wal/[0-9a-f]{2}/(\d{1,19})/(\d{20})/(\d{20})")


class WalObjectKind(IntEnum):
    CLAIM = 1
    BULK = 2
    SEAL = 3


class WalObjectHeader(msgspec.Struct, frozen=True):
    """``store_id`` and ``incarnation`` are 32 hex digits. ``body_bytes`` and ``body_crc`` are those of the body."""

    kind: WalObjectKind
    store_id: str
    node_id: int
    node_epoch: int
    incarnation: str
    seq: int
    first_position: int
    trimmed_position: int
    kept_epoch: int
    kept_seq: int
    answered_seq: int
    body_bytes: int = 0
    body_crc: int = 0

    @property
    def end_position(self) -> int:
        """The log position after the object's records."""
        return self.first_position + (self.body_bytes if self.kind is WalObjectKind.BULK else 0)

    @property
    def kept(self) -> tuple[int, int]:
        return self.kept_epoch, self.kept_seq


class WalSeal(msgspec.Struct, frozen=True):
    """Which process took the log over, and when, in milliseconds since 1970."""

    node_id: int
    node_epoch: int
    sealed_ms: int


class WalObjectPlace(msgspec.Struct, frozen=True, order=True):
    """What the key of a WAL object says."""

    node_id: int
    node_epoch: int
    seq: int


def wal_prefix(node_id: int) -> str:
    """Returns the text with which all keys of one node's log begin. The hash spreads nodes over prefixes, as
    ``model.objects`` does."""
    spread = blake2b(node_id.to_bytes(8, "big"), digest_size=1).hexdigest()
    return f"{WAL_PREFIX}{spread}/{node_id}/"


def wal_object_key(node_id: int, node_epoch: int, seq: int) -> str:
    return f"{wal_prefix(node_id)}{node_epoch:020d}/{seq:020d}"


def wal_object_name(key: str) -> WalObjectPlace | None:
    """Returns the place that a key names; None when it is not one that ``wal_object_key`` returns."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    name = WalObjectPlace(*map(int, match.groups()))
    is_own = name.node_id < 2**63 and wal_object_key(name.node_id, name.node_epoch, name.seq) == key
    return name if is_own else None


def encode_wal_object(header: WalObjectHeader, body: Buffers) -> list[Buffer]:
    """Returns the buffers of the object; the length and the checksum of the body are filled in."""
    checked = _HEADER.pack(
        WAL_OBJECT_MAGIC, WAL_OBJECT_VERSION, header.kind, bytes.fromhex(header.store_id),
        header.node_id, header.node_epoch, bytes.fromhex(header.incarnation), header.seq,
        header.first_position, header.trimmed_position, header.kept_epoch, header.kept_seq, header.answered_seq,
        total_bytes(body), crc32c(body),
    )  # fmt: skip
    return [checked + _CRC.pack(crc32c([checked])), *body]


def encode_seal_body(seal: WalSeal) -> bytes:
    return _SEAL.pack(seal.node_id, seal.node_epoch, seal.sealed_ms)


def decode_seal_body(body: Buffer) -> WalSeal:
    """Raises DamagedWal."""
    if len(body) != _SEAL.size:
        raise DamagedWal(f"the seal has {len(body)} bytes, and not {_SEAL.size}")
    return WalSeal(*_SEAL.unpack(body))


def decode_wal_object_header(data: Buffer) -> WalObjectHeader:
    """Returns the header from the first bytes of an object. Raises DamagedWal, WalOfNewerVersion."""
    if len(data) < WAL_OBJECT_HEADER_BYTES:
        raise DamagedWal(f"it has {len(data)} bytes, too few for the header of a WAL object")
    checked = bytes(data[: _HEADER.size])
    if checked[:4] != WAL_OBJECT_MAGIC or _CRC.unpack_from(data, _HEADER.size)[0] != crc32c([checked]):
        raise DamagedWal("its header is damaged, or it is no WAL object")
    _, version, kind, store_id, node_id, epoch, incarnation, *numbers = _HEADER.unpack(checked)
    if not 1 <= version <= WAL_OBJECT_VERSION:
        raise unknown_version("it is a WAL object of", version, WAL_OBJECT_VERSION)
    if kind not in WalObjectKind.__members__.values():
        raise DamagedWal(f"it is a WAL object of kind {kind}, which this program does not know")
    return WalObjectHeader(WalObjectKind(kind), store_id.hex(), node_id, epoch, incarnation.hex(), *numbers)


def decode_wal_object(data: Buffer) -> tuple[WalObjectHeader, memoryview]:
    """Returns the header and the body of a whole object. Raises DamagedWal when it is truncated, too long or
    damaged."""
    header = decode_wal_object_header(data)
    body = memoryview(data)[WAL_OBJECT_HEADER_BYTES:]
    if len(body) != header.body_bytes:
        raise DamagedWal(
            f"its body has {len(body):,} bytes, and its header says {header.body_bytes:,}: it is truncated or too long"
        )
    if crc32c([body]) != header.body_crc:
        raise DamagedWal("the checksum of its body does not match")
    return header, body


def decode_bulk(header: WalObjectHeader, body: memoryview) -> list[WalRecord]:
    """Returns the records of a bulk. Raises DamagedWal unless they fill the whole body."""
    records: list[WalRecord] = []
    at, position = 0, header.first_position
    while at < len(body):
        record = decode_record(body, at, position)
        if record is None:
            raise DamagedWal(f"the record at log position {position} is damaged")
        records.append(record)
        at += record.end_position - record.position
        position = record.end_position
    return records
