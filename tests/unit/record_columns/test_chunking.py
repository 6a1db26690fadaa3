import numpy as np
import pytest

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records.reading import Record
from siltstone.record_columns.batches import Batches, BlockPlace, UnreadableBatch
from siltstone.record_columns.chunking import Chunk, chunks
from siltstone.record_columns.kernels import compiled, plain
from siltstone.record_columns.kernels.columns import read_only
from siltstone.record_columns.kernels.port import Kernels
from support.engine.objects import index_of
from support.kafka.kafka_batches import with_offset_deltas
from support.maintenance.compacted_stream import STREAM_ID, CompactedStream, in_batches, numbered_keys


def block_of(codecs: list[Codec]) -> Batches:
    """A batch of three records by each codec."""
    stream = CompactedStream(block_bytes=1 << 20)
    for codec in codecs:
        in_batches(stream, numbered_keys(3, 3), 3, codec)
    return block_of_stream(stream)


def block_of_stream(stream: CompactedStream) -> Batches:
    (data,) = stream.object_bytes()
    (entry,) = index_of(data)
    block = read_only(data[: entry.size_bytes])
    return Batches(block, plain.scan_batches(block, STREAM_ID), BlockPlace(5, 300))


def opened(batches: Batches, rows: list[int], **limits: int) -> list[Chunk]:
    flags = np.isin(np.arange(len(batches)), rows)
    return [*chunks(batches, flags, plain, **limits)]


def test_without_compression_a_block_is_one_chunk_and_nothing_is_copied() -> None:
    batches = block_of([Codec.NONE] * 4)
    (chunk,) = opened(batches, [1, 3])
    assert (chunk.first, chunk.end) == (0, 4)
    assert chunk.records.offsets.tolist() == [3, 4, 5, 9, 10, 11]
    assert chunk.records.batch.tolist() == [1, 1, 1, 3, 3, 3]
    assert np.shares_memory(chunk.records.data, batches.data)


def test_chunks_end_when_they_are_full() -> None:
    batches = block_of([Codec.LZ4, Codec.NONE, Codec.ZSTD, Codec.SNAPPY, Codec.GZIP])
    found = opened(batches, [0, 1, 2, 4], chunk_bytes=60)
    assert [(chunk.first, chunk.end) for chunk in found] == [(0, 2), (2, 5)]
    assert [chunk.records.offsets.tolist() for chunk in found] == [[*range(6)], [6, 7, 8, 12, 13, 14]]


@pytest.mark.parametrize("kernels", [compiled, plain], ids=["compiled", "plain"])
@pytest.mark.parametrize(
    "deltas",
    [(0, 0, 0), (2, 1, 0), (0, 5, 2), (0, 1, 3), (-1, 0, 1), (0, 2, 1), (2**31 - 1, 0, 1), (1, 1, 2)],
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4], ids=lambda codec: codec.name)
def test_records_whose_deltas_do_not_count_have_the_offsets_of_their_places(
    deltas: tuple[int, ...], codec: Codec, kernels: Kernels
) -> None:
    stream = CompactedStream(block_bytes=1 << 20)
    three = [Record(key=b"k", timestamp_ms=1)] * 3
    for of_batch in ((0, 1, 2), deltas, (0, 1, 2)):
        stream.add_batch(with_offset_deltas(three, of_batch, compression=codec))
    (data,) = stream.object_bytes()
    block = read_only(data[: index_of(data)[0].size_bytes])
    batches = Batches(block, kernels.scan_batches(block, STREAM_ID), BlockPlace(5, 300))
    (chunk,) = chunks(batches, np.ones(3, dtype=np.bool_), kernels)
    assert chunk.records.offsets.tolist() == [*range(9)]
    assert chunk.records.are_renumbered
    (chunk,) = chunks(batches, np.array([True, False, True]), kernels)
    assert chunk.records.offsets.tolist() == [0, 1, 2, 6, 7, 8]
    assert not chunk.records.are_renumbered


def test_a_batch_of_which_compaction_has_removed_records_keeps_its_offsets() -> None:
    stream = CompactedStream(block_bytes=1 << 20)
    stream.add(("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("b", "2"))
    stream.compact()
    (data,) = stream.object_bytes()
    block = read_only(data[: index_of(data)[0].size_bytes])
    (chunk,) = opened(Batches(block, plain.scan_batches(block, STREAM_ID), BlockPlace(5, 300)), [0])
    assert chunk.records.offsets.tolist() == [2, 3, 4]
    assert not chunk.records.are_renumbered


def test_nothing_to_open() -> None:
    (chunk,) = opened(block_of([Codec.LZ4, Codec.NONE]), [])
    assert (chunk.first, chunk.end, len(chunk.records)) == (0, 2, 0)


def test_more_records_than_fit_are_refused_before_memory_is_taken() -> None:
    batches = block_of([Codec.NONE])
    batches.rows[0, 4] = 2**40
    where = "offset 0 on, in the block at 300 of object 5, cannot be read: more records"
    with pytest.raises(UnreadableBatch, match=where) as caught:
        opened(batches, [0])
    assert caught.value.object_id == 5


def test_ab04_a_stream_that_decompresses_to_too_much() -> None:
    with pytest.raises(UnreadableBatch, match="decompress to more than 20 bytes") as caught:
        opened(block_of([Codec.ZSTD]), [0], batch_bytes_max=20)
    assert caught.value.object_id == 5


def test_an_empty_key_is_a_key_and_an_empty_value_a_value() -> None:
    stream = CompactedStream(block_bytes=1 << 20)
    stream.add(("", None), (None, ""), ("k", "v"))
    batches = block_of_stream(stream)
    (chunk,) = opened(batches, [0])
    assert chunk.records.have_key.tolist() == [True, False, True]
    assert chunk.records.have_value.tolist() == [False, True, True]
