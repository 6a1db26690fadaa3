import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.metadata.framing import (
    FRAME_HEADER_BYTES,
    FrameDamaged,
    FrameOverlong,
    FrameTruncated,
    FrameVersionUnknown,
    seal,
    unseal,
)
from siltstone.model.errors import CorruptData

MAGIC, LABEL = b"TEST", bytes(range(16))


@given(st.binary(max_size=200), st.binary(min_size=16, max_size=16))
def test_round_trip(body, label) -> None:
    assert unseal(MAGIC, seal(MAGIC, label, body)) == (label, body)


@given(st.binary(max_size=40), st.data())
def test_every_truncation_is_named(body, data) -> None:
    frame = seal(MAGIC, LABEL, body)
    kept = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(FrameTruncated):
        unseal(MAGIC, frame[:kept])


@given(st.binary(max_size=40), st.binary(min_size=1, max_size=5))
def test_bytes_after_the_end_are_named(body, more) -> None:
    with pytest.raises(FrameOverlong):
        unseal(MAGIC, seal(MAGIC, LABEL, body) + more)


@given(st.binary(max_size=40), st.data())
def test_rule_8_every_flipped_bit_is_found(body, data) -> None:
    frame = bytearray(seal(MAGIC, LABEL, body))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptData):
        unseal(MAGIC, bytes(frame))


def test_another_kind_and_another_version() -> None:
    frame = bytearray(seal(MAGIC, LABEL, b"body"))
    with pytest.raises(FrameDamaged, match="magic"):
        unseal(b"ELSE", bytes(frame))
    frame[4] = 2
    with pytest.raises(FrameVersionUnknown, match="format 2"):
        unseal(MAGIC, bytes(frame))
    assert len(frame) == FRAME_HEADER_BYTES + 4
