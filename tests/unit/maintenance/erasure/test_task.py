"""The task of an erasure, on one stream object after another."""

from collections.abc import Sequence
from typing import Any

import pytest

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records.control import Outcome
from siltstone.maintenance.erasure.task import erase, run_erasure
from siltstone.maintenance.erasure.task_input import CODEC, ErasureInput, ErasureResult
from siltstone.maintenance.record_rewriting.values import SourceObject
from siltstone.offline.erased_keys import hashes_of_keys
from siltstone.offline.erasures import StreamErasure
from siltstone.record_columns.kernels import plain
from support.maintenance.compacted_stream import (
    HASH_KEY,
    STREAM_ID,
    CompactedStream,
    in_batches,
    numbered_keys,
)

FAR = 10**9


def erasure_of(*keys: str, bound: int = FAR, erasure_id: str = "e") -> StreamErasure:
    hashes = hashes_of_keys([each.encode() for each in keys], HASH_KEY, plain)
    return StreamErasure(erasure_id, HASH_KEY, tuple(hashes), bound)


def given(
    stream: CompactedStream, source: SourceObject, *erasures: StreamErasure, **changes: Any
) -> ErasureInput:
    return ErasureInput(
        stream_id=STREAM_ID, sources=(source,), erasures=erasures, start_offset=stream.start_offset,
        read_request_bytes_max=1024, block_bytes=stream.block_bytes, object_bytes=4096,
        bucket_urls={0: stream.url}, **changes,
    )  # fmt: skip


def looked(stream: CompactedStream, *erasures: StreamErasure) -> list[ErasureResult]:
    stream.close_object()
    return [erase(given(stream, source, *erasures), plain) for source in stream.sources]


def erased_from(stream: CompactedStream, *erasures: StreamErasure) -> list[ErasureResult]:
    """Writes every object of the stream again, and puts the new ones in place."""
    stream.close_object()
    results, sources = [], []
    for source in stream.sources:
        ids = stream._take_ids(10)
        one = given(stream, source, *erasures, first_object_id=ids, object_count_max=10)
        result = erase(one, plain)
        assert result.failure is None
        results.append(result)
        sources += [SourceObject(each.object_id, 0, each.size_bytes, each.held) for each in result.objects]
    assert _covered(sources) == _covered(stream.sources), "offsets do not change"
    stream.sources = sources
    return results


def _covered(sources: Sequence[SourceObject]) -> tuple[int, int]:
    return sources[0].held.start_offset, sources[-1].held.end_offset


def test_records_of_the_keys_leave_and_offsets_stay() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("b", "2"), ("a", "3"))
    stream.add(("c", "4"), (None, "5"), ("ab", "6"))
    (result,) = erased_from(stream, erasure_of("a"))
    assert stream.said() == ["1:b=2", "3:c=4", "4:-=5", "5:ab=6"]
    assert (result.erased, result.records_read) == ((2,), 6)


def test_a_tombstone_of_the_key_leaves_too() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("a", None), ("b", "2"))
    erased_from(stream, erasure_of("a"))
    assert stream.said() == ["2:b=2"]


def test_a_batch_without_a_record_left_stays_as_an_empty_one() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("a", "2"), producer_id=9, producer_epoch=1, base_sequence=5)
    stream.add(("b", "3"))
    erased_from(stream, erasure_of("a"))
    assert stream.said() == ["0-1:empty", "2:b=3"]
    empty = stream.headers()[0]
    assert (empty.producer_id, empty.producer_epoch, empty.base_sequence) == (9, 1, 5)


def test_records_from_the_bound_on_stay() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("a", "2"), ("a", "3"))
    erased_from(stream, erasure_of("a", bound=2))
    assert stream.said() == ["2:a=3"]


def test_records_of_aborted_transactions_leave_and_markers_stay() -> None:
    stream = CompactedStream()
    stream.add_transactional(5, ("a", "1"), ("b", "2"))
    stream.end_transaction(5, Outcome.ABORT)
    stream.add_transactional(5, ("a", "3"))
    stream.end_transaction(5, Outcome.COMMIT)
    erased_from(stream, erasure_of("a"))
    assert stream.said() == ["1:b=2", "2:ABORT", "3-3:empty", "4:COMMIT"]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
def test_batches_are_compressed_again_as_they_were(codec: Codec) -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(60, 20), 6, codec)
    before = stream.records()
    erased_from(stream, erasure_of("k3", "k7"))
    assert stream.records() == [each for each in before if each.key not in (b"k3", b"k7")]
    assert {header.codec for header in stream.headers() if header.record_count} == {codec}


def test_batches_without_the_keys_are_copied_byte_for_byte() -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(12, 12), 3, Codec.GZIP)
    before = [frame.payload for frame in stream.frames()]
    erased_from(stream, erasure_of("k0"))
    assert [frame.payload for frame in stream.frames()][1:] == before[1:]


def test_of_a_stream_in_many_objects_each_is_written_by_itself() -> None:
    stream = CompactedStream()
    for number in range(3):
        stream.add(("a", f"{number}"), ("b", f"{number}"))
        stream.close_object()
    results = erased_from(stream, erasure_of("a"))
    assert [result.erased for result in results] == [(1,), (1,), (1,)]
    assert stream.said() == ["1:b=0", "3:b=1", "5:b=2"]


def test_a_large_object_becomes_several() -> None:
    stream = CompactedStream()
    for number in range(40):
        stream.add((f"k{number}", "v" * 400))
    (result,) = erased_from(stream, erasure_of("k1"))
    assert len(result.objects) > 2
    assert len(stream.records()) == 39


def test_a_look_counts_for_each_erasure_and_writes_nothing() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("b", "2"), ("a", "3"))
    stream.close_object()
    before = list(stream.store.list())
    (result,) = looked(stream, erasure_of("a", bound=1), erasure_of("b", "z"), erasure_of("c"))
    assert result.erased == (1, 1, 0)
    assert not result.objects
    assert list(stream.store.list()) == before


def test_erasures_with_different_hash_keys_work_together() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("b", "2"), ("c", "3"))
    other = bytes(16)
    second = StreamErasure("f", other, tuple(hashes_of_keys([b"b"], other, plain)), FAR)
    (result,) = erased_from(stream, erasure_of("a"), second)
    assert stream.said() == ["2:c=3"]
    assert result.erased == (1, 1)


def test_the_same_input_writes_the_same_bytes() -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(30, 10), 5, Codec.ZSTD)
    stream.close_object()
    (source,) = stream.sources
    one = given(stream, source, erasure_of("k1"), first_object_id=stream._take_ids(10), object_count_max=10)
    data = CODEC.encode_input(one)
    first, second = (CODEC.decode_result(run_erasure(data)) for _ in range(2))
    assert first.objects == second.objects  # a put of other bytes would have been refused


def test_an_object_that_is_gone_is_named() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"))
    stream.close_object()
    (source,) = stream.sources
    stream.store.delete([each.key for each in stream.store.list()])
    (result,) = looked(stream, erasure_of("a"))
    assert result.failure is not None
    assert result.failure.object_id == source.object_id
