"""A change of a share group, made by hand: header, MessagePack, packed batches."""

from siltstone.foundation.crc32c import crc32c
from siltstone.object_formats.share_state import (
    ChangeKind,
    ShareChange,
    ShareState,
    StateBatch,
    decode_share_change,
    encode_share_change,
    pack_batches,
)

BATCHES = (
    "0a00000000000000" "0c00000000000000" "00" "0300"  # 10 to 12, available, delivered 3 times
    "0d00000000000000" "0d00000000000000" "04" "0500"  # 13, archived, delivered 5 times
)  # fmt: skip
BODY = bytes.fromhex(
    "92"  # an array of 2: kind, state
    "01"  # a part
    "95"  # an array of 5
    "a7" + b"workers".hex()  # the group
    + "02"  # state epoch
    "07"  # leader epoch
    "0a"  # start offset
    "c426" + BATCHES  # 38 bytes
)  # fmt: skip
CHECKSUM = "9cce4c72"
GOLDEN = b"SSG1" + bytes.fromhex(CHECKSUM) + BODY
CHANGE = ShareChange(
    ChangeKind.PART,
    ShareState("workers", 2, 7, 10, pack_batches([StateBatch(10, 12, 0, 3), StateBatch(13, 13, 4, 5)])),
)


def test_the_bytes_are_those_made_by_hand() -> None:
    assert encode_share_change(CHANGE) == GOLDEN
    assert decode_share_change(GOLDEN) == CHANGE
    assert crc32c((BODY,)).to_bytes(4, "little").hex() == CHECKSUM
