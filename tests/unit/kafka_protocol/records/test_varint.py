import pytest

from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.kafka_protocol.records.varint import INT32_BITS, INT64_BITS, append_varint, decode_varint

# From the Protocol Buffers encoding guide and the ends of the ranges.
KNOWN = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-2, "03"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
KNOWN_LONG = [(2**63 - 1, "feffffffffffffffff01"), (-(2**63), "ffffffffffffffffff01"), (2**31, "8080808010")]


@pytest.mark.parametrize(("value", "written"), KNOWN + KNOWN_LONG)
def test_known_values(value, written):
    target = bytearray(b"before")
    append_varint(target, value)
    assert target == b"before" + bytes.fromhex(written)
    bits = INT64_BITS if (value, written) in KNOWN_LONG else INT32_BITS
    assert decode_varint(memoryview(target), 6, bits) == (value, len(target))


def test_zeros_that_pad_are_read():
    assert decode_varint(b"\x82\x80\x80\x80\x00", 0) == (1, 5)
    assert decode_varint(b"\x82" + b"\x80" * 8 + b"\x00", 0, INT64_BITS) == (1, 10)


@pytest.mark.parametrize(("bits", "longest"), [(INT32_BITS, 5), (INT64_BITS, 10)])
def test_over_long(bits, longest):
    for tail in (b"\x00", b"\x01", b"\x80" * 50):
        with pytest.raises(MalformedRecords, match="longer"):
            decode_varint(b"\x80" * longest + tail, 0, bits)


@pytest.mark.parametrize("written", ["8080808010", "ffffffff10", "ffffffff7f"])
def test_bits_beyond_32(written):
    with pytest.raises(MalformedRecords, match="more than 32"):
        decode_varint(bytes.fromhex(written), 0)


@pytest.mark.parametrize("written", ["80808080808080808002", "ffffffffffffffffff7f"])
def test_bits_beyond_64(written):
    with pytest.raises(MalformedRecords, match="more than 64"):
        decode_varint(bytes.fromhex(written), 0, INT64_BITS)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_end_of_the_data_is_an_index_error_for_the_caller_to_name(kind):
    for written in (b"", b"\x80", b"\x80\x80"):
        with pytest.raises(IndexError):
            decode_varint(kind(written), 0)
