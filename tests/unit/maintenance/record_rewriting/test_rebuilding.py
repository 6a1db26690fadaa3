"""Rebuilt batches are read by others' libraries as they were meant."""

import pytest

from siltstone.kafka_protocol.batch_header import Codec, read_batch_header
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.record_columns.kernels import compiled, plain
from siltstone.record_columns.kernels.port import Kernels
from support.kafka.record_oracles import READERS, read_by
from support.maintenance.compacted_stream import CompactedStream

RECORDS = [
    Record(timestamp_ms=1_700_000_000_000, key=b"gone", value=b"1"),
    Record(timestamp_ms=1_700_000_000_500, key=b"kept", value=b"v" * 300, headers=(("h", b"x"), ("n", None))),
    Record(timestamp_ms=1_699_999_999_000, key=b"deleted", value=None),
    Record(timestamp_ms=-1, key=b"", value=b""),
]


def rebuilt(codec: Codec, kernels: Kernels) -> bytes:
    """The first of two batches: one record is gone, and a time limit begins."""
    stream = CompactedStream(kernels)
    stream.add_batch(
        build_batch(RECORDS, compression=codec, producer_id=4, producer_epoch=2, base_sequence=9)
    )
    stream.add(("gone", "2"))
    stream.compact(1_700_000_100_000)
    return bytes(stream.frames()[0].payload)


@pytest.mark.parametrize("kernels", [compiled, plain], ids=["compiled", "plain"])
@pytest.mark.parametrize("library", sorted(READERS))
@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_others_read_right_timestamps_under_a_time_limit(
    codec: Codec, library: str, kernels: Kernels
) -> None:
    batch = rebuilt(codec, kernels)
    header = read_batch_header(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp_ms == 1_700_000_100_000 + 86_400_000
    assert header.max_timestamp_ms == 1_700_000_000_500
    assert (header.codec, header.record_count, header.last_sequence) == (codec, 3, 12)
    found = [
        (one.offset, one.timestamp_ms, one.key, one.value, one.headers) for one in read_by(library, batch)
    ]
    assert found == [
        (offset, one.timestamp_ms, one.key, one.value, one.headers)
        for offset, one in enumerate(RECORDS)
        if one.key != b"gone"
    ]


@pytest.mark.parametrize("library", sorted(READERS))
@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_others_read_an_emptied_batch(codec: Codec, library: str) -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), compression=codec, producer_id=4, producer_epoch=2, base_sequence=9, at_ms=10)
    stream.add(("a", "2"))
    stream.compact(10)
    header = stream.headers()[0]
    assert read_by(library, bytes(stream.frames()[0].payload)) == []
    assert (header.record_count, header.codec, header.base_timestamp_ms, header.max_timestamp_ms) == (
        0,
        0,
        -1,
        10,
    )


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=lambda codec: codec.name)
def test_batches_that_are_rebuilt_together_each_have_their_own_header(codec: Codec) -> None:
    stream = CompactedStream(block_bytes=1 << 16)
    stream.add_batch(build_batch(RECORDS[:2], compression=codec))
    stream.add(("gone", "2"), ("untimed", "x"), at_ms=-1, compression=codec)
    stream.add(("gone", "3"), ("later", "y"), ("latest", "z"), at_ms=50, compression=codec)
    stream.add(("gone", "4"), at_ms=60)
    stream.compact()
    read = [[one.offset for one in read_by("aiokafka", bytes(frame.payload))] for frame in stream.frames()]
    assert read == [[1], [3], [5, 6], [7]], "their checksums are right"
    assert [frame.record_count for frame in stream.frames()] == [1, 1, 2, 1]
    assert [(frame.smallest_timestamp_ms, frame.largest_timestamp_ms) for frame in stream.frames()] == [
        (1_700_000_000_500, 1_700_000_000_500), (0, 0), (51, 52), (60, 60),
    ]  # fmt: skip


def test_a_batch_whose_records_have_no_times_has_none() -> None:
    stream = CompactedStream(block_bytes=1 << 16)
    stream.add_batch(build_batch([Record(timestamp_ms=-1, key=key, value=b"") for key in (b"gone", b"kept")]))
    mixed = [Record(timestamp_ms=at, key=b"%d" % at, value=b"") for at in (7, -1, 9)]
    stream.add_batch(build_batch([*mixed, Record(timestamp_ms=8, key=b"gone", value=b"")]))
    stream.add(("gone", "2"))
    stream.compact()
    first, second, _ = stream.frames()
    assert (first.smallest_timestamp_ms, first.largest_timestamp_ms) == (-1, -1)
    assert (second.smallest_timestamp_ms, second.largest_timestamp_ms) == (7, 9)
