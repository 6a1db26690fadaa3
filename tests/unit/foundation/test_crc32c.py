import pytest

from siltstone.foundation.crc32c import crc32c, crc32c_combine

RFC3720_VECTORS = [
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (b"123456789", 0xE3069283),
    (b"", 0),
]


@pytest.mark.parametrize(("data", "expected"), RFC3720_VECTORS)
def test_values_of_rfc_3720(data, expected):
    assert crc32c([data]) == expected


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, lambda data: memoryview(bytearray(data))])
@pytest.mark.parametrize("size", [0, 1, 255, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 700_001])
def test_every_kind_of_buffer_gives_the_checksum_of_its_bytes(form, size):
    data = bytes(index * 31 % 251 for index in range(size))
    assert crc32c([form(data)]) == crc32c([data])


def test_slices_of_a_larger_view():
    data = bytes(range(256)) * 8
    assert crc32c([memoryview(data)[7:1000]]) == crc32c([data[7:1000]])


def test_buffers_count_as_if_joined():
    assert crc32c([b"123", b"", bytearray(b"4567"), memoryview(b"89")]) == 0xE3069283


def test_initial_continues_an_earlier_checksum():
    assert crc32c([b"6789"], initial=crc32c([b"12345"])) == 0xE3069283


@pytest.mark.parametrize("length", [0, 1, 2, 3, 63, 64, 65, 1000, 65_536, 1_000_003])
def test_combination_equals_the_checksum_of_the_concatenation(length):
    first, second = b"silt, then stone", bytes(index * 7 % 256 for index in range(length))
    assert crc32c_combine(crc32c([first]), crc32c([second]), length) == crc32c([first, second])


def test_combination_over_lengths_no_buffer_could_have():
    """Appending 2**40 + 5 zero bytes in two steps is the same as in one."""
    crc = crc32c([b"start"])
    in_two = crc32c_combine(crc32c_combine(crc, 0, 2**40), 0, 5)
    assert crc32c_combine(crc, 0, 2**40 + 5) == in_two


def test_combination_refuses_a_negative_length():
    with pytest.raises(AssertionError):
        crc32c_combine(1, 2, -1)
