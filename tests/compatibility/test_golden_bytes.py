"""Bytes of every version ever released, read by today's program and, for the current version, written by it again.

The files were made from the layout tables by hand-written code with a checksum of its own, not by the encoders.
A change that breaks one of these cannot read what users have stored: add a version, keep the file.
"""

from pathlib import Path

from msgspec.structs import replace

from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import decode_frame, encode_frame_header
from siltstone.object_formats.block_index import BlockIndex, encode_index
from siltstone.object_formats.identity import (
    LogIdentity,
    StoreIdentity,
    decode_log_identity,
    decode_store_identity,
    encode_log_identity,
    encode_store_identity,
)
from siltstone.object_formats.log_file import (
    LOG_FILE_HEADER_BYTES,
    LogFileHeader,
    decode_log_file_header,
    decode_records,
    encode_log_file_header,
)
from siltstone.object_formats.object_layout import Footer, decode_footer, encode_footer
from siltstone.object_formats.wal_object import (
    WalObjectHeader,
    WalObjectKind,
    WalSeal,
    decode_bulk,
    decode_seal_body,
    decode_wal_object,
    encode_seal_body,
    encode_wal_object,
)
from support.engine.batches import build_object
from support.engine.objects import read_object
from support.engine.wal_bytes import record_bytes

BATCHES = [
    RecordBatch(7, 3, 100, 103, 3, 1357000000000, 1357000000002, b"silt"),
    RecordBatch(7, 3, 103, 2**33, 2, -1, -1, b""),
    RecordBatch(2**40, 1, 2**63 - 2, 2**63 - 1, 1, 5, 5, b"stone"),
]


def golden(name: str) -> bytes:
    return bytes.fromhex((Path(__file__).parent / "golden" / f"{name}.hex").read_text())


def test_batch_frame_v1():
    stored = golden("batch_frame_v1")
    assert decode_frame(memoryview(stored)) == (BATCHES[0], len(stored))
    assert encode_frame_header(BATCHES[0]) + BATCHES[0].payload == stored


def test_block_index_v1():
    stored = golden("block_index_v1")
    entries = build_object(BATCHES).entries
    assert list(BlockIndex(stored)) == entries
    assert encode_index(entries) == stored


def test_footer_v1():
    stored = golden("footer_v1")
    footer = Footer(2**40, 144, 2**40 + 144 + 64, 0x0A0B0C0D)
    assert decode_footer(stored, footer.object_bytes) == footer
    assert encode_footer(footer) == stored


def test_object_v1():
    stored = golden("object_v1")
    assert read_object(stored) == BATCHES
    assert b"".join(build_object(BATCHES).buffers) == stored


def test_wal_segment_v1():
    stored = golden("wal_segment_v1")
    header = LogFileHeader(node_id=12, node_epoch=4, first_position=2**35)
    assert decode_log_file_header(stored) == header
    read = list(decode_records(memoryview(stored)[LOG_FILE_HEADER_BYTES:], 2**35))
    assert [(record.batch, record.metadata_version) for record in read] == [(BATCHES[0], 0), (BATCHES[2], 0)]


def test_wal_segment_v1_reserved():
    header = LogFileHeader(node_id=12, node_epoch=4, first_position=2**35, reserved_bytes=2**26)
    assert decode_log_file_header(golden("wal_segment_v1_reserved")) == header


VERSIONS = 17, 2**32 - 1
"""Of the metadata, as the two records of the golden log say. The second stands for all higher ones, too."""


def test_wal_segment_v2():
    stored = golden("wal_segment_v2")
    header = LogFileHeader(node_id=12, node_epoch=4, first_position=2**35)
    assert decode_log_file_header(stored) == header
    read = list(decode_records(memoryview(stored)[LOG_FILE_HEADER_BYTES:], 2**35))
    assert [record.batch for record in read] == [BATCHES[0], BATCHES[2]]
    assert [record.metadata_version for record in read] == [*VERSIONS]
    first = record_bytes(BATCHES[0], 2**35, 2**35, VERSIONS[0])
    second = record_bytes(BATCHES[2], 2**35 + len(first), 2**35 + len(first), 2**40)
    assert encode_log_file_header(header) + first + second == stored


def test_wal_segment_v2_reserved():
    stored = golden("wal_segment_v2_reserved")
    header = LogFileHeader(node_id=12, node_epoch=4, first_position=2**35, reserved_bytes=2**26)
    assert decode_log_file_header(stored) == header
    assert encode_log_file_header(header) == stored


STORE_ID = "00112233445566778899aabbccddeeff"


def test_log_identity_v1():
    assert decode_log_identity(golden("log_identity_v1")) == LogIdentity(STORE_ID, node_id=12, node_epoch=4)


def test_log_identity_v2():
    stored = golden("log_identity_v2")
    identity = LogIdentity(STORE_ID, node_id=12, node_epoch=4, metadata_version=2**40)
    assert decode_log_identity(stored) == identity


def test_log_identity_v3():
    stored = golden("log_identity_v3")
    append_id = "ffeeddccbbaa99887766554433221100"
    identity = LogIdentity(STORE_ID, node_id=12, node_epoch=4, metadata_version=2**40, append_id=append_id)
    assert decode_log_identity(stored) == identity


def test_log_identity_v4():
    stored = golden("log_identity_v4")
    append_id = "ffeeddccbbaa99887766554433221100"
    identity = LogIdentity(
        STORE_ID,
        node_id=12,
        node_epoch=4,
        metadata_version=2**40,
        append_id=append_id,
        files=(2**35, 2**35 + 2**26),
    )
    assert decode_log_identity(stored) == identity
    assert encode_log_identity(identity) == stored


def test_store_identity_v1():
    stored = golden("store_identity_v1")
    assert decode_store_identity(stored) == StoreIdentity(STORE_ID)
    assert encode_store_identity(StoreIdentity(STORE_ID)) == stored


def wal_header(kind: WalObjectKind, seq: int, first: int, trimmed: int, kept: tuple[int, int], answered: int):
    store_id, incarnation = bytes(range(16)).hex(), bytes(range(16, 32)).hex()
    return WalObjectHeader(kind, store_id, 7, 3, incarnation, seq, first, trimmed, *kept, answered)


def wal_object(stored: bytes, header: WalObjectHeader, *, is_written: bool = True) -> memoryview:
    """The body of the stored object, whose header is as given and which is written again if it is of the current
    version."""
    found, body = decode_wal_object(stored)
    assert replace(found, body_bytes=0, body_crc=0) == header
    assert (b"".join(encode_wal_object(header, [body])) == stored) == is_written
    return body


CLAIM = wal_header(WalObjectKind.CLAIM, 0, 2**40, 2**40, (3, 0), 0)
BULK = wal_header(WalObjectKind.BULK, 9, 2**35, 2**35, (2, 2**33), 8)
SEAL = wal_header(WalObjectKind.SEAL, 10, 2**41, 2**40, (3, 2), 10)


def test_wal_object_claim_v1():
    assert wal_object(golden("wal_object_claim_v1"), CLAIM, is_written=False) == golden("log_identity_v3")


def test_wal_object_claim_v2():
    assert wal_object(golden("wal_object_claim_v2"), CLAIM) == golden("log_identity_v3")


def test_wal_object_bulk_v1():
    body = wal_object(golden("wal_object_bulk_v1"), BULK, is_written=False)
    assert body == golden("wal_segment_v1")[LOG_FILE_HEADER_BYTES:]
    assert [record.batch for record in decode_bulk(BULK, body)] == [BATCHES[0], BATCHES[2]]


def test_wal_object_bulk_v2():
    body = wal_object(golden("wal_object_bulk_v2"), BULK)
    assert body == golden("wal_segment_v2")[LOG_FILE_HEADER_BYTES:]
    assert [record.metadata_version for record in decode_bulk(BULK, body)] == [*VERSIONS]


SEALED_BY = WalSeal(node_id=5, node_epoch=2**32, sealed_ms=1357000000000)


def test_wal_object_seal_v1():
    assert decode_seal_body(wal_object(golden("wal_object_seal_v1"), SEAL, is_written=False)) == SEALED_BY


def test_wal_object_seal_v2():
    body = wal_object(golden("wal_object_seal_v2"), SEAL)
    assert decode_seal_body(body) == SEALED_BY
    assert encode_seal_body(SEALED_BY) == body


def test_every_golden_file_is_tested():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    files = {path.stem for path in (Path(__file__).parent / "golden").glob("*.hex")}
    assert files
    in_files_of_their_own = {
        path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")
    }
    assert files <= tested | in_files_of_their_own
