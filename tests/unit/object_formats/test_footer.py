from itertools import product

import pytest

from siltstone.foundation.crc32c import crc32c
from siltstone.object_formats.footer import FOOTER_BYTES, DamagedFooter, Footer, decode_footer, encode_footer

FOOTER = Footer(index_position=1000, index_bytes=144, object_bytes=1208, index_crc32c=0x01020304)


@pytest.mark.parametrize(
    "footer",
    [
        FOOTER,
        Footer(0, 0, FOOTER_BYTES, 0),
        Footer(2**40, 72, 2**40 + 72 + FOOTER_BYTES, 2**32 - 1),
        Footer(2**63, 2**33, 2**63 + 2**33 + FOOTER_BYTES, 1),
    ],
)
def test_footer_comes_back(footer):
    assert decode_footer(encode_footer(footer), footer.object_bytes) == footer


def test_only_the_last_bytes_count():
    assert decode_footer(memoryview(b"blocks and index" + encode_footer(FOOTER)), 1208) == FOOTER


def test_truncated_in_front_at_every_length():
    for length in range(FOOTER_BYTES):
        raw = encode_footer(FOOTER)
        with pytest.raises(DamagedFooter, match="too few for a footer"):
            decode_footer(raw[FOOTER_BYTES - length :], 1208)


def test_a_flip_anywhere_is_named():
    for position, bit in product(range(FOOTER_BYTES), [0x01, 0x80]):
        raw = bytearray(encode_footer(FOOTER))
        raw[position] ^= bit
        with pytest.raises(DamagedFooter, match=r"no footer|checksum"):
            decode_footer(raw, 1208)


@pytest.mark.parametrize("extra", [1, 8, 64])
def test_trailing_bytes_are_named(extra):
    with pytest.raises(DamagedFooter, match="no footer"):
        decode_footer(encode_footer(FOOTER) + bytes(extra), 1208 + extra)


@pytest.mark.parametrize("size", [0, 64, 1207, 1209, 2**63])
def test_another_size_than_written_is_named(size):
    with pytest.raises(DamagedFooter, match="was written with 1208"):
        decode_footer(encode_footer(FOOTER), size)


def test_an_index_elsewhere_than_before_the_footer_is_named():
    elsewhere = Footer(index_position=1000, index_bytes=72, object_bytes=1208, index_crc32c=0)
    with pytest.raises(DamagedFooter, match="does not end where"):
        decode_footer(encode_footer(elsewhere), 1208)


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_another_version_is_named(version):
    raw = bytearray(encode_footer(FOOTER))
    raw[28:32] = version.to_bytes(4, "little")
    raw[52:56] = crc32c([bytes(raw[:52])]).to_bytes(4, "little")
    with pytest.raises(DamagedFooter, match=f"format version {version}; this program reads 1"):
        decode_footer(raw, 1208)
