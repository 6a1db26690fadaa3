"""A page of aborted transactions, version 1, made by hand."""

from pathlib import Path

from siltstone.object_formats.aborted_page import decode_aborted_page, encode_aborted_page
from siltstone.object_formats.partition_snapshot import AbortedTransaction, pack_aborted, unpack_aborted

GOLDEN = bytes.fromhex((Path(__file__).parent / "golden" / "aborted_page_v1.hex").read_text())
ENTRIES = [AbortedTransaction(9, 30, 40), AbortedTransaction(11, 2**33 - 272, 2**33 - 256)]


def test_it_is_read() -> None:
    assert unpack_aborted(decode_aborted_page(GOLDEN)) == ENTRIES


def test_it_is_written_again() -> None:
    assert encode_aborted_page(pack_aborted(ENTRIES)) == GOLDEN
