"""A partition's snapshot of version 4, made by hand: that of version 3, and the pages it names."""

from pathlib import Path

import msgspec

from siltstone.object_formats.partition_snapshot import (
    AbortedPage,
    PartitionSnapshot,
    decode_snapshot,
    encode_snapshot,
)

FOLDER = Path(__file__).parent / "golden"
GOLDEN = bytes.fromhex((FOLDER / "partition_snapshot_v4.hex").read_text())
GOLDEN_V3 = bytes.fromhex((FOLDER / "partition_snapshot_v3.hex").read_text())
PAGES = (AbortedPage(7, 40), AbortedPage(512, 2**33 - 256))


def with_pages(snapshot: PartitionSnapshot, pages: tuple[AbortedPage, ...]) -> PartitionSnapshot:
    return msgspec.structs.replace(snapshot, body=msgspec.structs.replace(snapshot.body, pages=pages))


def test_it_is_read() -> None:
    assert decode_snapshot(GOLDEN) == with_pages(decode_snapshot(GOLDEN_V3), PAGES)


def test_it_is_written_again() -> None:
    assert encode_snapshot(decode_snapshot(GOLDEN)) == GOLDEN


def test_without_pages_version_3_is_written_for_older_brokers() -> None:
    assert encode_snapshot(with_pages(decode_snapshot(GOLDEN), ())) == GOLDEN_V3
