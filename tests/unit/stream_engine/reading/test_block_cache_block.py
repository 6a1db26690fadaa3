import pytest

from siltstone.object_formats.block_index import DamagedBlock
from siltstone.stream_engine.reading.block_cache import BLOCK_OVERHEAD_BYTES, Block
from support.engine.batches import batch, build_object, frames

RAW = frames([batch(3, 7, 2)])
ENTRY = build_object([batch(3, 7, 2)]).entries[0]


def test_key_and_charge():
    block = Block(12, ENTRY, RAW)
    assert block.key == (12, 0)
    assert block.charge_bytes == len(RAW) + BLOCK_OVERHEAD_BYTES


@pytest.mark.parametrize("raw", [RAW[:-1], RAW + b"x", RAW[:-1] + b"?", b""])
def test_a_block_that_exists_was_checked(raw):
    with pytest.raises(DamagedBlock, match=r"object 12, stream 3 \[7, 9\)") as caught:
        Block(12, ENTRY, raw)
    assert (caught.value.object_id, caught.value.entry) == (12, ENTRY)
