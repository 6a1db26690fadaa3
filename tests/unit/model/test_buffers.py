from siltstone.model.buffers import total_bytes


def test_total_bytes_counts_every_kind():
    assert total_bytes([b"abc", bytearray(5), memoryview(b"1234")[1:]]) == 11
    assert total_bytes([]) == 0
