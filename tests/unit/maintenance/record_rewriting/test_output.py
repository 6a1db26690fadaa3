"""What becomes of objects and blocks; their bytes are read again by tests/support/maintenance/compacted_stream.py."""

from itertools import pairwise

from siltstone.model.record_batch import NO_TIMESTAMP
from support.engine.objects import index_of
from support.maintenance.compacted_stream import CompactedStream, in_batches


def compacted(**changes: int) -> CompactedStream:
    """Every second batch is removed."""
    stream = CompactedStream(block_bytes=300)
    for number in range(60):
        stream.add((f"k{number}", "v" * 40), at_ms=number)
        stream.add(("same", f"{number}"), at_ms=number)
    stream.compact(**changes)
    return stream


def test_blocks_tile_the_range_and_end_with_a_frame() -> None:
    stream = compacted()
    spans = stream.spans()
    assert spans[0][0] == 0
    assert spans[-1][1] == 120
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    frame_ends = {frame.end_offset for frame in stream.frames()}
    assert {end for _, end in spans} <= frame_ends


def test_blocks_are_closed_at_their_size() -> None:
    stream = compacted(block_bytes=500)
    sizes = [entry.size_bytes for data in stream.object_bytes() for entry in index_of(data)]
    assert all(500 <= size < 500 + 200 for size in sizes[:-1])


def test_objects_are_cut_at_their_size_between_blocks() -> None:
    stream = compacted(object_bytes=1500)
    sizes = [source.held.size_bytes for source in stream.sources]
    assert len(sizes) > 3
    assert all(1500 <= size < 1500 + 600 for size in sizes[:-1])
    assert all(
        before.held.end_offset == after.held.start_offset for before, after in pairwise(stream.sources)
    )


def test_the_last_object_there_is_an_id_for_takes_all_the_rest() -> None:
    stream = compacted(object_bytes=1500, object_count_max=2)
    first, last = stream.sources
    assert first.held.size_bytes < 2100 < last.held.size_bytes
    assert last.held.end_offset == 120


def test_entries_say_what_the_blocks_hold() -> None:
    stream = compacted()
    frames = stream.frames()
    entries = [entry for data in stream.object_bytes() for entry in index_of(data)]
    for entry in entries:
        inside = [f for f in frames if entry.start_offset <= f.base_offset < entry.end_offset]
        assert entry.record_count == sum(frame.record_count for frame in inside)
        assert entry.smallest_timestamp_ms == min(frame.smallest_timestamp_ms for frame in inside)
        assert entry.largest_timestamp_ms == max(frame.largest_timestamp_ms for frame in inside)
    assert max(source.held.largest_timestamp_ms for source in stream.sources) == 59


def test_batches_without_timestamps() -> None:
    stream = CompactedStream()
    in_batches(stream, [("a", "1"), ("a", "2")], 1)
    stream.add(("b", "1"), at_ms=NO_TIMESTAMP)
    stream.compact()
    assert [frame.smallest_timestamp_ms for frame in stream.frames()] == [0, NO_TIMESTAMP]
    (data,) = stream.object_bytes()
    assert [entry.smallest_timestamp_ms for entry in index_of(data)] == [0]
