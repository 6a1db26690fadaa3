"""A partition's snapshot of version 4, made by hand: that of version 3, and the pages it names; and such a page."""

from pathlib import Path

import msgspec

from siltstone.object_formats.aborted_page import decode_aborted_page, encode_aborted_page
from siltstone.object_formats.partition_snapshot import (
    AbortedPage,
    AbortedTransaction,
    PartitionSnapshot,
    decode_snapshot,
    encode_snapshot,
    pack_aborted,
    unpack_aborted,
)

FOLDER = Path(__file__).parent / "golden"
GOLDEN = bytes.fromhex((FOLDER / "partition_snapshot_v4.hex").read_text())
GOLDEN_V3 = bytes.fromhex((FOLDER / "partition_snapshot_v3.hex").read_text())
PAGE = bytes.fromhex((FOLDER / "aborted_page_v1.hex").read_text())
PAGES = (AbortedPage(7, 40), AbortedPage(512, 2**33 - 256))
IN_PAGE = [AbortedTransaction(9, 30, 40), AbortedTransaction(11, 2**33 - 272, 2**33 - 256)]


def with_pages(snapshot: PartitionSnapshot, pages: tuple[AbortedPage, ...]) -> PartitionSnapshot:
    return msgspec.structs.replace(snapshot, body=msgspec.structs.replace(snapshot.body, pages=pages))


def test_it_is_read() -> None:
    assert decode_snapshot(GOLDEN) == with_pages(decode_snapshot(GOLDEN_V3), PAGES)


def test_it_is_written_again() -> None:
    assert encode_snapshot(decode_snapshot(GOLDEN)) == GOLDEN


def test_without_pages_version_3_is_written_for_older_brokers() -> None:
    assert encode_snapshot(with_pages(decode_snapshot(GOLDEN), ())) == GOLDEN_V3


def test_a_page_is_read_and_written_again() -> None:
    assert unpack_aborted(decode_aborted_page(PAGE)) == IN_PAGE
    assert encode_aborted_page(pack_aborted(IN_PAGE)) == PAGE
