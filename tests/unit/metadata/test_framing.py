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
LABELS = st.sampled_from([LABEL, bytes(range(32))])
"""Of both formats."""


@given(st.binary(max_size=200), st.binary(min_size=16, max_size=16) | st.binary(min_size=32, max_size=32))
def test_round_trip(body, label) -> None:
    assert unseal(MAGIC, seal(MAGIC, label, body), newest=2) == (label, body)


@given(st.binary(max_size=40), LABELS, st.data())
def test_every_truncation_is_named(body, label, data) -> None:
    frame = seal(MAGIC, label, body)
    kept = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(FrameTruncated):
        unseal(MAGIC, frame[:kept], newest=2)


@given(st.binary(max_size=40), LABELS, st.binary(min_size=1, max_size=5))
def test_bytes_after_the_end_are_named(body, label, more) -> None:
    with pytest.raises(FrameOverlong):
        unseal(MAGIC, seal(MAGIC, label, body) + more, newest=2)


@given(st.binary(max_size=40), LABELS, st.data())
def test_rule_8_every_flipped_bit_is_found(body, label, data) -> None:
    frame = bytearray(seal(MAGIC, label, body))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptData):
        unseal(MAGIC, bytes(frame), newest=2)


def test_another_kind_and_another_version() -> None:
    frame = bytearray(seal(MAGIC, LABEL, b"body"))
    with pytest.raises(FrameDamaged, match="magic"):
        unseal(b"ELSE", bytes(frame))
    frame[4] = 2
    with pytest.raises(FrameVersionUnknown, match="format 2"):
        unseal(MAGIC, bytes(frame))
    assert len(frame) == FRAME_HEADER_BYTES + 4
