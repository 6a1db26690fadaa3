import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.foundation.crc32c import crc32c
from siltstone.object_formats.share_state import (
    ChangeKind,
    DamagedShareState,
    ShareChange,
    ShareState,
    StateBatch,
    decode_share_change,
    encode_share_change,
    is_share_change,
    pack_batches,
    unpack_batches,
)

EXAMPLE = ShareChange(
    ChangeKind.PART,
    ShareState("workers", 2, 7, 10, pack_batches([StateBatch(10, 12, 0, 3), StateBatch(13, 13, 4, 5)])),
)
PAYLOAD = encode_share_change(EXAMPLE)

ends = st.lists(st.integers(0, 2**62), unique=True, max_size=8).map(sorted)
batches = ends.map(lambda found: [StateBatch(each, each, 2, each % 60_000) for each in found])
states = st.builds(
    ShareState, st.text(max_size=9), st.integers(0, 2**31), st.integers(0, 2**31), st.integers(0, 2**62),
    batches.map(pack_batches),
)  # fmt: skip


@given(st.builds(ShareChange, st.sampled_from(ChangeKind), states))
def test_a_round_trip(change):
    payload = encode_share_change(change)
    assert is_share_change(payload)
    assert decode_share_change(memoryview(payload)) == change


def test_batches_are_read_back():
    assert unpack_batches(EXAMPLE.state.batches) == [StateBatch(10, 12, 0, 3), StateBatch(13, 13, 4, 5)]


def test_every_flipped_or_missing_byte_is_noticed():
    for position in range(len(PAYLOAD)):
        flipped = bytearray(PAYLOAD)
        flipped[position] ^= 1
        for damaged in (bytes(flipped), PAYLOAD[:position], PAYLOAD + b"\0"):
            with pytest.raises(DamagedShareState):
                decode_share_change(damaged)


@pytest.mark.parametrize(
    "packed", [bytes(18), pack_batches([StateBatch(3, 2, 0, 1)]), pack_batches([StateBatch(1, 2, 1, 1)]),
               pack_batches([StateBatch(1, 2, 0, 1), StateBatch(2, 3, 0, 1)])]
)  # fmt: skip
def test_batches_that_are_none(packed):
    state = ShareState("workers", 0, 0, 0, packed)
    with pytest.raises(DamagedShareState, match="cannot be read"):
        decode_share_change(encode_share_change(ShareChange(ChangeKind.WHOLE, state)))


def test_a_body_that_is_none():
    checked = b"\x91\x09"
    payload = b"SSG1" + crc32c((checked,)).to_bytes(4, "little") + checked
    with pytest.raises(DamagedShareState, match="cannot be read"):
        decode_share_change(payload)
