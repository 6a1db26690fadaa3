from typing import Any

import pytest

from siltstone.maintenance.key_compaction.task_input import KeyCompactionInput
from siltstone.maintenance.record_rewriting.source_blocks import SourceBlocks, StreamNotCompactable
from siltstone.maintenance.record_rewriting.values import SourceObject
from siltstone.model.objects import ObjectRange, object_key
from siltstone.object_formats.batch_frame import decode_frames
from siltstone.object_formats.block_index import DamagedBlock
from siltstone.object_store.copies import Copies
from support.engine.objects import index_of
from support.maintenance.compacted_stream import STREAM_ID, CompactedStream, in_batches, numbered_keys


def of_two_objects() -> CompactedStream:
    stream = CompactedStream(block_bytes=200)
    in_batches(stream, numbered_keys(30, 30), 3)
    stream.close_object()
    in_batches(stream, numbered_keys(30, 30), 3)
    return stream


def blocks_of(stream: CompactedStream, **changes: Any) -> tuple[SourceBlocks, KeyCompactionInput]:
    unit = stream.unit(**changes)
    return SourceBlocks(unit, lambda _: Copies([(0, stream.store)])), unit


def test_all_blocks_in_offset_order() -> None:
    stream = of_two_objects()
    blocks, _ = blocks_of(stream)
    found = [frame.base_offset for block in blocks.read() for frame in decode_frames(block.data)]
    assert found == [*range(0, 60, 3)]
    assert {block.object_id for block in blocks.read()} == {source.object_id for source in stream.sources}


def test_reading_begins_with_the_block_that_ends_after_the_offset() -> None:
    blocks, _ = blocks_of(of_two_objects())
    spans = [(block.entry.start_offset, block.entry.end_offset) for block in blocks.read(31)]
    assert spans[0][0] <= 31 < spans[0][1]
    assert spans[-1][1] == 60


def test_neighbours_are_read_together_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = of_two_objects()
    entries = [entry for data in stream.object_bytes() for entry in index_of(data)]
    bytes_max = 2 * max(entry.size_bytes for entry in entries)
    blocks, _ = blocks_of(stream, read_request_bytes_max=bytes_max)
    asked: list[int] = []
    get_range = stream.store.get_range

    def counting(key: str, start: int, end: int) -> bytes:
        asked.append(end - start)
        return get_range(key, start, end)

    monkeypatch.setattr(stream.store, "get_range", counting)
    assert len([*blocks.read()]) == len(entries)
    assert max(asked) <= bytes_max
    assert len(entries) / 2 <= len(asked) < len(entries)
    assert blocks.bytes_read == sum(asked)


def test_no_more_than_one_request_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = of_two_objects()
    blocks, _ = blocks_of(stream, read_request_bytes_max=1)
    begun: list[int] = []
    get_range = stream.store.get_range

    def counting(key: str, start: int, end: int) -> bytes:
        begun.append(start)
        return get_range(key, start, end)

    monkeypatch.setattr(stream.store, "get_range", counting)
    for taken, _ in enumerate(blocks.read(), start=1):
        assert len(begun) <= taken + 1


def test_a_damaged_block_says_which_it_is() -> None:
    stream = of_two_objects()
    blocks, unit = blocks_of(stream)
    key = object_key(unit.sources[1].object_id)
    data = bytearray(stream.store.get_range(key, 0, unit.sources[1].size_bytes))
    data[80] ^= 1
    stream.store.delete([key])
    stream.store.put(key, [bytes(data)])
    with pytest.raises(DamagedBlock, match=f"object {unit.sources[1].object_id}"):
        [*blocks.read()]


def test_an_object_that_lacks_what_the_image_says() -> None:
    stream = of_two_objects()
    unit = stream.unit()
    source = unit.sources[1]
    held = ObjectRange(STREAM_ID, source.object_id, 30, 61, source.held.size_bytes, 0)
    stream.sources[1] = SourceObject(source.object_id, 0, source.size_bytes, held)
    with pytest.raises(StreamNotCompactable, match="no block for offset 60"):
        blocks_of(stream)


def test_how_many_records_there_may_be() -> None:
    blocks, _ = blocks_of(of_two_objects())
    assert blocks.records_between(0, 60) == 60
    assert blocks.records_between(60, 60) == 0
    assert 30 <= blocks.records_between(30, 60) <= 36


def test_reading_begins_at_the_first_record_unless_it_is_said() -> None:
    """A block that ends at the offset is skipped, even if it is the only one of its request."""
    stream = of_two_objects()
    blocks, _ = blocks_of(stream, read_request_bytes_max=1)
    spans = [(block.entry.start_offset, block.entry.end_offset) for block in blocks.read()]
    assert spans[0][0] == 0
    read_before = blocks.bytes_read
    assert [block.entry.start_offset for block in blocks.read(spans[0][1])] == [
        start for start, _ in spans[1:]
    ]
    assert blocks.bytes_read - read_before < read_before
    together, _ = blocks_of(stream)
    assert next(iter(together.read(spans[0][1]))).entry.start_offset == spans[1][0]


def test_the_first_of_several_offsets_of_a_block_is_enough() -> None:
    one = CompactedStream()
    one.add(("a", "1"))
    blocks, _ = blocks_of(one)
    assert [block.entry.end_offset for block in blocks.read()] == [1]
    assert [*blocks.read(1)] == []
