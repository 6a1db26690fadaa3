from pathlib import Path

import msgspec
import pytest

from siltstone.kafka_protocol.batch_header import Codec
from siltstone.maintenance.key_compaction.task import compact_keys, run_key_compaction
from siltstone.maintenance.key_compaction.task_input import CODEC
from siltstone.model.objects import object_key
from siltstone.object_store.port import StoreTransient
from siltstone.record_columns.kernels import plain
from support.maintenance.compacted_stream import CompactedStream, in_batches, numbered_keys, offsets


def test_a_unit_goes_in_and_a_result_comes_out() -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(100, 10), 8)
    result = CODEC.decode_result(run_key_compaction(CODEC.encode_input(stream.unit())))
    stream.commit(result)
    assert offsets(stream.records()) == [*range(90, 100)]
    assert (result.records_read, result.records_kept, result.keys_mapped) == (100, 10, 10)
    assert (result.batches_read, result.batches_kept, result.batches_copied) == (13, 2, 1)
    assert result.bytes_written == sum(each.size_bytes for each in result.objects)
    assert result.bytes_read > 0
    assert result.peak_memory_bytes > 1 << 20


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.name)
def test_the_same_unit_writes_the_same_bytes(codec: Codec) -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(300, 40), 7, codec)
    unit = stream.unit(object_bytes=512)
    first = compact_keys(unit, plain)
    keys = [object_key(each.object_id) for each in first.objects]
    written = [stream.store.get_range(key, 0, stream.store.head(key).size_bytes) for key in keys]
    stream.store.delete(keys)
    second = msgspec.structs.replace(compact_keys(unit, plain), peak_memory_bytes=first.peak_memory_bytes)
    assert second == first
    assert len(keys) > 1
    assert [stream.store.get_range(key, 0, stream.store.head(key).size_bytes) for key in keys] == written


def test_where_nothing_can_go_nothing_is_written() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("b", "1"))
    unit = stream.unit()
    result = compact_keys(unit, plain)
    assert result.is_unchanged
    assert result.objects == ()
    assert (result.cleaned_offset, result.records_kept) == (2, 2)
    assert [*stream.store.list()] == [stream.store.head(object_key(1))]


def test_a_damaged_block_is_a_failure_in_a_sentence() -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(100, 10), 8)
    unit = stream.unit()
    key = object_key(unit.sources[0].object_id)
    data = bytearray(stream.store.get_range(key, 0, unit.sources[0].size_bytes))
    data[100] ^= 1
    stream.store.delete([key])
    stream.store.put(key, [bytes(data)])
    result = compact_keys(unit, plain)
    assert result.failure is not None
    assert "is damaged: its checksum does not match" in result.failure.reason
    assert result.failure.object_id == unit.sources[0].object_id
    assert result.objects == ()


def test_a_source_that_is_gone_is_a_failure_in_a_sentence() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"))
    unit = stream.unit()
    stream.store.delete([object_key(unit.sources[0].object_id)])
    failure = compact_keys(unit, plain).failure
    assert failure is not None and failure.reason
    assert failure.object_id == unit.sources[0].object_id


def test_a_batch_that_cannot_be_read_is_a_failure_that_says_which() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"))
    batch = stream.add(("a", "2"), ("b", "2"))
    broken = bytearray(stream._open[-1].payload)
    broken[61] = 0x7F
    stream._open[-1] = msgspec.structs.replace(stream._open[-1], payload=bytes(broken))
    result = stream.compact()
    assert result.failure is not None
    assert f"a batch from offset {batch - 1} on" in result.failure.reason
    assert "block at 0 of object 1" in result.failure.reason
    assert result.failure.object_id == 1


def test_trouble_with_the_store_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = CompactedStream()
    stream.add(("a", "1"))
    unit = stream.unit()

    def refuse(*_: object) -> bytes:
        raise StoreTransient("503")

    monkeypatch.setattr(type(stream.store), "get_range", refuse)
    with pytest.raises(StoreTransient):
        compact_keys(unit, plain)


def test_sources_in_another_bucket_and_a_folder(tmp_path: Path) -> None:
    stream = CompactedStream()
    in_batches(stream, numbered_keys(50, 5), 8)
    unit = stream.unit(bucket_urls={0: stream.url, 4: tmp_path.as_uri()}, output_bucket_id=4)
    result = compact_keys(unit, plain)
    assert [path.name for path in tmp_path.rglob("0*")] == [f"{result.objects[0].object_id:020d}"]
