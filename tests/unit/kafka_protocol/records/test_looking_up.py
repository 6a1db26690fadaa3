import pytest

from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.kafka_protocol.batch_header import Codec, patch_log_append_time, read_batch_header
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.looking_up import first_record_at_or_after, record_with_max_timestamp
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.errors import SiltstoneError
from support.kafka.kafka_batches import encode_batch, of_one_record, with_body

# Offsets 100 … 105; times go back and forth, as producers' do.
TIMES = [10, 30, 20, -1, 30, 5]
RECORDS = [Record(timestamp_ms=time, key=b"k" * time if time > 0 else None, value=b"v") for time in TIMES]


@pytest.fixture(params=Codec, ids=lambda codec: codec.name)
def batch(request):
    return build_batch(RECORDS, base_offset=100, compression=request.param)


@pytest.mark.parametrize(
    ("timestamp_ms", "start_offset", "found"),
    [
        (-1, 0, (100, 10)),
        (0, 0, (100, 10)),
        (10, 0, (100, 10)),
        (11, 0, (101, 30)),
        (20, 0, (101, 30)),
        (30, 0, (101, 30)),
        (31, 0, None),
        (10, 100, (100, 10)),
        (10, 101, (101, 30)),
        (20, 102, (102, 20)),
        (-1, 103, (103, -1)),
        (0, 103, (104, 30)),
        (6, 105, None),
        (-1, 106, None),
    ],
)
def test_item_35_first_record_of_that_time_or_later(batch, timestamp_ms, start_offset, found):
    assert first_record_at_or_after(batch, timestamp_ms, start_offset) == found


@pytest.mark.parametrize(
    ("start_offset", "found"),
    [(0, (101, 30)), (101, (101, 30)), (102, (104, 30)), (105, (105, 5)), (106, None)],
)
def test_item_35_first_record_with_the_largest_timestamp(batch, start_offset, found):
    assert record_with_max_timestamp(batch, start_offset) == found


def test_log_append_time(batch):
    patch_log_append_time(batch, 500)
    assert first_record_at_or_after(batch, 500) == (100, 500)
    assert first_record_at_or_after(batch, 501) is None
    assert first_record_at_or_after(batch, 1, 103) == (103, 500)
    assert record_with_max_timestamp(batch) == (100, 500)
    assert record_with_max_timestamp(batch, 105) == (105, 500)


def test_offsets_of_a_compacted_batch():
    header = read_batch_header(build_batch(RECORDS, base_offset=100))
    kept = [Record(offset=102, timestamp_ms=20), Record(offset=105, timestamp_ms=5)]
    assert first_record_at_or_after(encode_batch(header, kept), 0) == (102, 20)
    assert first_record_at_or_after(encode_batch(header, kept), 0, 103) == (105, 5)
    assert record_with_max_timestamp(encode_batch(header, [])) is None
    assert first_record_at_or_after(encode_batch(header, []), 0) is None


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\x01",
        b"\x06\x00\x00",
        b"\x04\x00\x00\x00",
        b"\x02\x00",
        b"\x10\x00" + b"\x80" * 11,
        b"\x00\x00",
    ],
)
def test_malformed_records_are_named(record):
    for look_up in (record_with_max_timestamp, lambda batch: first_record_at_or_after(batch, 2**62)):
        with pytest.raises(MalformedRecords):
            look_up(of_one_record(record))


def test_a_record_does_not_go_on_in_the_next():
    """The first says it is one byte long, and what follows would do for its fields."""
    whole = bytes([12, 0, 0, 0, 1, 1, 0])
    for body, count in ((bytes([2, 0]) + whole, 2), (whole + bytes(3), 1)):
        with pytest.raises(MalformedRecords):
            record_with_max_timestamp(with_body(build_batch(RECORDS[:1]), body, record_count=count))


def test_flipped_bits_are_read_or_named():
    batch = build_batch(RECORDS, base_offset=100)
    for bit in range(61 * 8, len(batch) * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert record_with_max_timestamp(flipped) is not None
        except SiltstoneError as error:
            assert str(error)


def test_from_the_beginning_unless_it_is_said(batch):
    """Offset 0, too, and those that a producer has yet to be given."""
    first = build_batch([Record(timestamp_ms=7, value=b"v"), Record(timestamp_ms=5, value=b"v")])
    assert record_with_max_timestamp(first) == (0, 7)
    assert first_record_at_or_after(first, 6) == (0, 7)
    assert first_record_at_or_after(batch, 10) == (100, 10)
    before = build_batch([Record(timestamp_ms=7, value=b"v")], base_offset=-1)
    assert record_with_max_timestamp(before) is None
    assert first_record_at_or_after(before, 1) is None
