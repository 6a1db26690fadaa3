"""WAL objects in a bucket: bytes, keys, damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.object_formats.identity import LogIdentity, encode_log_identity
from siltstone.object_formats.log_file import RECORD_OVERHEAD_BYTES, DamagedWal
from siltstone.object_formats.wal_object import (
    SEAL_BYTES,
    WAL_OBJECT_HEADER_BYTES,
    WalObjectHeader,
    WalObjectKind,
    WalObjectPlace,
    WalSeal,
    decode_bulk,
    decode_seal_body,
    decode_wal_object,
    decode_wal_object_header,
    encode_seal_body,
    encode_wal_object,
    wal_object_key,
    wal_object_name,
    wal_prefix,
)
from support.engine.batches import batch
from support.engine.wal_bytes import groups_bytes

HEADER = WalObjectHeader(WalObjectKind.BULK, "ab" * 16, 3, 5, "cd" * 16, 9, 1_000, 900, 4, 7, 8)
NUMBERS = st.integers(0, 2**64 - 1)
IDS = st.binary(min_size=16, max_size=16).map(bytes.hex)


def stored(header: WalObjectHeader = HEADER, body: bytes = b"") -> bytes:
    return b"".join(encode_wal_object(header, [body]))


@given(
    st.builds(
        WalObjectHeader, st.sampled_from(WalObjectKind), IDS, NUMBERS, NUMBERS, IDS,
        NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, NUMBERS,
    ),
    st.lists(st.binary(max_size=50), max_size=4),
)  # fmt: skip
def test_what_is_encoded_is_decoded(header: WalObjectHeader, body: list[bytes]) -> None:
    found, found_body = decode_wal_object(b"".join(encode_wal_object(header, body)))
    assert bytes(found_body) == b"".join(body)
    assert found.body_bytes == len(found_body)
    assert decode_wal_object_header(stored(header, b"".join(body))) == found
    assert (found.kind, found.seq, found.kept, found.answered_seq) == (
        header.kind, header.seq, (header.kept_epoch, header.kept_seq), header.answered_seq,
    )  # fmt: skip


def test_every_flipped_bit_of_a_small_object_is_noticed() -> None:
    whole = stored(body=groups_bytes([[batch(1, 0, 1, 10)]], HEADER.first_position))
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << at % 8
        with pytest.raises(DamagedWal):
            decode_wal_object(bytes(flipped))


@pytest.mark.parametrize("change", [-1, -50, -130, 1, 1_000])
def test_w14_truncated_and_over_long_objects_are_damaged_never_empty(change: int) -> None:
    whole = stored(body=groups_bytes([[batch(1, 0, 1, 10)]], HEADER.first_position))
    other = whole[:change] if change < 0 else whole + bytes(change)
    with pytest.raises(DamagedWal):
        decode_wal_object(other)


def test_other_versions_and_kinds_are_named() -> None:
    import struct

    from siltstone.foundation.crc32c import crc32c

    def with_field(at: int, value: int) -> bytes:
        header = bytearray(stored())
        struct.pack_into("<H", header, at, value)
        struct.pack_into("<I", header, 116, crc32c([bytes(header[:116])]))
        return bytes(header)

    with pytest.raises(DamagedWal, match="version 3; this program reads 1 to 2"):
        decode_wal_object(with_field(4, 3))
    with pytest.raises(DamagedWal, match="kind 4, which this program does not know"):
        decode_wal_object(with_field(6, 4))


def test_a_bulk_is_all_its_records_or_damaged() -> None:
    batches = [batch(1, 0, 1, 10), batch(2, 7, 3, 100)]
    body = groups_bytes([batches], HEADER.first_position)
    records = decode_bulk(HEADER, memoryview(body))
    assert [record.batch for record in records] == batches
    assert records[-1].end_position == HEADER.first_position + len(body)
    for wrong in (body[:-1], body + b"\0", body[1:], groups_bytes([batches], 0)):
        with pytest.raises(DamagedWal, match="log position"):
            decode_bulk(HEADER, memoryview(wrong))
    assert decode_bulk(HEADER, memoryview(b"")) == []


def test_only_a_seal_has_its_size() -> None:
    seal = WalSeal(1, 2, 3)
    assert WAL_OBJECT_HEADER_BYTES + len(encode_seal_body(seal)) == SEAL_BYTES
    assert decode_seal_body(encode_seal_body(seal)) == seal
    with pytest.raises(DamagedWal):
        decode_seal_body(b"short")
    assert WAL_OBJECT_HEADER_BYTES < SEAL_BYTES < WAL_OBJECT_HEADER_BYTES + RECORD_OVERHEAD_BYTES
    shortest = encode_log_identity(LogIdentity("ab" * 16, 0, 0))
    assert WAL_OBJECT_HEADER_BYTES + len(shortest) > SEAL_BYTES


@given(st.integers(0, 2**63 - 1), NUMBERS, NUMBERS)
def test_a_key_says_whose_object_it_is_and_sorts_in_the_order_of_the_log(
    node: int, epoch: int, seq: int
) -> None:
    key = wal_object_key(node, epoch, seq)
    assert key.startswith(wal_prefix(node))
    assert wal_object_name(key) == WalObjectPlace(node, epoch, seq)
    if seq:
        assert wal_object_key(node, epoch, seq - 1) < key
    if epoch:
        assert wal_object_key(node, epoch - 1, 2**64 - 1) < key


@pytest.mark.parametrize(
    "key",
    [
        "wal/00/0/00000000000000000001/00000000000000000001",  # another hash
        wal_object_key(3, 1, 1) + "x",
        wal_object_key(3, 1, 1)[:-1],
        "x" + wal_object_key(3, 1, 1),
        wal_object_key(3, 1, 1).replace("/3/", "/03/"),
        "wal/",
    ],
)
def test_other_keys_are_none(key: str) -> None:
    assert wal_object_name(key) is None
