import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.foundation.crc32c import crc32c
from siltstone.object_formats.aborted_page import (
    DamagedAbortedPage,
    decode_aborted_page,
    encode_aborted_page,
    is_aborted_page,
)
from siltstone.object_formats.partition_snapshot import AbortedTransaction, pack_aborted, unpack_aborted
from support.values.examples import examples

OFFSETS = st.integers(0, 2**63 - 1)
PAGE = encode_aborted_page(pack_aborted([AbortedTransaction(1, 2, 3), AbortedTransaction(4, 5, 6)]))


@settings(max_examples=examples(100))
@given(st.lists(st.builds(AbortedTransaction, OFFSETS, OFFSETS, OFFSETS), max_size=9))
def test_what_is_written_is_read(entries):
    payload = memoryview(encode_aborted_page(pack_aborted(entries)))
    assert is_aborted_page(payload)
    assert unpack_aborted(decode_aborted_page(payload)) == entries


def test_truncated():
    for length in range(len(PAGE)):
        with pytest.raises(DamagedAbortedPage):
            decode_aborted_page(PAGE[:length])


def test_flipped():
    for position in range(len(PAGE)):
        damaged = bytearray(PAGE)
        damaged[position] ^= 0x40
        with pytest.raises(DamagedAbortedPage):
            decode_aborted_page(damaged)


def test_too_long():
    with pytest.raises(DamagedAbortedPage, match="CRC-32C"):
        decode_aborted_page(PAGE + b"\0")


def test_half_of_a_transaction_with_a_crc_that_holds():
    packed = bytes(30)
    with pytest.raises(DamagedAbortedPage, match="30 bytes"):
        decode_aborted_page(b"SPA1" + crc32c((packed,)).to_bytes(4, "little") + packed)


def test_a_snapshot_is_no_page():
    assert not is_aborted_page(b"SPS4" + PAGE[4:])
    with pytest.raises(DamagedAbortedPage, match="begins with b'SPS4'"):
        decode_aborted_page(b"SPS4" + PAGE[4:])
