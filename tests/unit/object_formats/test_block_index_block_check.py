import msgspec
import pytest

from siltstone.object_formats.block_index import DamagedBlock, verify_block
from support.engine.batches import batch, build_object, frames

BATCHES = [batch(stream_id=4, base_offset=70), batch(stream_id=4, base_offset=71)]
BLOCK = frames(BATCHES)
ENTRY = build_object(BATCHES).entries[0]


def test_a_whole_block_passes():
    verify_block(memoryview(BLOCK), ENTRY, object_id=12)


def test_a_flip_anywhere_names_object_stream_and_offsets():
    for position in range(len(BLOCK)):
        damaged = bytearray(BLOCK)
        damaged[position] ^= 0x04
        with pytest.raises(DamagedBlock, match=r"object 12, stream 4 \[70, 72\), is damaged"):
            verify_block(damaged, ENTRY, object_id=12)


@pytest.mark.parametrize("raw", [b"", BLOCK[:-1], BLOCK + b"x"])
def test_another_length_is_named(raw):
    with pytest.raises(DamagedBlock, match=f"has {len(BLOCK)} bytes, but {len(raw)} were read"):
        verify_block(raw, ENTRY, object_id=12)


def test_an_empty_read_is_no_empty_answer():
    with pytest.raises(DamagedBlock):
        verify_block(b"", msgspec.structs.replace(ENTRY, crc32c=0), object_id=12)
