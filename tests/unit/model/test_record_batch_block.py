from siltstone.model.record_batch import BlockEntry


def test_end_position_beyond_32_bits():
    entry = BlockEntry(1, 0, 1, 1, 2**40, 2**33, -1, -1, 0)
    assert entry.end_position == 2**40 + 2**33
