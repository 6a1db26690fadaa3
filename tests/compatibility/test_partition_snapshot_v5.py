"""A partition's snapshot of version 5, made by hand: that of version 4, and a share group."""

from pathlib import Path

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.object_formats.partition_snapshot import PartitionSnapshot, decode_snapshot, encode_snapshot
from siltstone.object_formats.share_state import ShareState, StateBatch, pack_batches

GOLDEN_V4 = bytes.fromhex((Path(__file__).parent / "golden" / "partition_snapshot_v4.hex").read_text())
GROUP = bytes.fromhex(
    "91"  # an array of 1
    "95"  # an array of 5
    "a7" + b"workers".hex()  # the group
    + "02"  # state epoch
    "07"  # leader epoch
    "0a"  # start offset
    "c413"  # 19 bytes
    "0a00000000000000" "0c00000000000000" "00" "0300"  # 10 to 12, available, delivered 3 times
)  # fmt: skip
assert GOLDEN_V4[16:17] == b"\x96"  # an array of 6
CHECKED = GOLDEN_V4[8:16] + b"\x97" + GOLDEN_V4[17:] + GROUP
GOLDEN = b"SPS5" + crc32c((CHECKED,)).to_bytes(4, "little") + CHECKED
SHARE = ShareState("workers", 2, 7, 10, pack_batches([StateBatch(10, 12, 0, 3)]))


def with_shares(snapshot: PartitionSnapshot, shares: tuple[ShareState, ...]) -> PartitionSnapshot:
    return msgspec.structs.replace(snapshot, body=msgspec.structs.replace(snapshot.body, shares=shares))


def test_it_is_read() -> None:
    assert decode_snapshot(GOLDEN) == with_shares(decode_snapshot(GOLDEN_V4), (SHARE,))


def test_it_is_written_again() -> None:
    assert encode_snapshot(decode_snapshot(GOLDEN)) == GOLDEN


def test_without_share_groups_version_4_is_written_for_older_brokers() -> None:
    assert encode_snapshot(with_shares(decode_snapshot(GOLDEN), ())) == GOLDEN_V4
