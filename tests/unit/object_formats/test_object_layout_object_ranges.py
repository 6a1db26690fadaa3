from siltstone.model.objects import ObjectRange
from siltstone.object_formats.object_layout import ranges_of_entries
from support.engine.batches import batch, build_object


def test_one_range_for_each_contiguous_run_of_a_stream():
    built = build_object(
        [
            batch(1, 0, 5, timestamp_ms=50),
            batch(1, 5, 5, timestamp_ms=10),
            batch(1, 20, timestamp_ms=1),
            batch(2, 20),
        ],
        block_size_bytes=1,
    )
    assert len(built.entries) == 4
    assert ranges_of_entries(built.entries, object_id=8) == (
        ObjectRange(1, 8, 0, 10, 184, 54),
        ObjectRange(1, 8, 20, 21, 92, 1),
        ObjectRange(2, 8, 20, 21, 92, 1000),
    )


def test_an_object_without_blocks_holds_no_range():
    assert ranges_of_entries([], object_id=8) == ()


def test_ranges_beyond_32_bits():
    built = build_object([batch(2**40, 2**31, offsets=2**32), batch(2**40, 2**31 + 2**32)])
    (only,) = ranges_of_entries(built.entries, object_id=2**40)
    assert (only.start_offset, only.end_offset) == (2**31, 2**31 + 2**32 + 1)
