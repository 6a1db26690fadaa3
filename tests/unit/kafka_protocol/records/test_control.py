import pytest

from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.kafka_protocol.batch_header import patch_offset_and_epoch, read_batch_header
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import (
    Outcome,
    TransactionMarker,
    build_control_batch,
    read_control_batch,
)
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from support.kafka.kafka_batches import RECORDS


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("epoch", [0, 7, 2**31 - 1])
def test_markers_come_back(outcome, epoch):
    batch = build_control_batch(
        TransactionMarker(outcome, epoch), producer_id=5, producer_epoch=6, timestamp_ms=7
    )
    patch_offset_and_epoch(batch, 70, 80)
    assert read_control_batch(memoryview(batch)) == TransactionMarker(outcome, epoch)


@pytest.mark.parametrize(("outcome", "key"), [(Outcome.ABORT, "00000000"), (Outcome.COMMIT, "00000001")])
def test_section_2_3_layout(outcome, key):
    batch = build_control_batch(
        TransactionMarker(outcome, 3),
        producer_id=5,
        producer_epoch=6,
        timestamp_ms=7,
        base_offset=8,
        partition_leader_epoch=9,
    )
    header = read_batch_header(batch)
    assert (header.attributes, header.base_sequence, header.record_count) == (0x30, -1, 1)
    assert (header.producer_id, header.producer_epoch, header.max_timestamp_ms) == (5, 6, 7)
    assert (header.base_offset, header.partition_leader_epoch) == (8, 9)
    (record,) = iterate_records(batch)
    assert (record.offset, record.key.hex(), record.value.hex()) == (8, key, "000000000003")


def test_fields_of_later_versions_are_ignored():
    record = Record(key=bytes.fromhex("0001000000ff"), value=bytes.fromhex("000100000004ff"))
    assert read_control_batch(build_batch([record])) == TransactionMarker(Outcome.ABORT, 4)


VALUE = bytes(6)


@pytest.mark.parametrize(
    "records",
    [
        RECORDS,
        [Record(key=bytes(4), value=bytes(6))] * 2,
        [Record(key=None, value=VALUE)],
        [Record(key=bytes(4), value=None)],
        [Record(key=bytes(3), value=VALUE)],
        [Record(key=bytes(4), value=VALUE[:5])],
        [Record(key=bytes.fromhex("ffff0000"), value=VALUE)],
        [Record(key=bytes(4), value=bytes.fromhex("ffff00000000"))],
        [Record(key=bytes.fromhex("00000002"), value=VALUE)],
        [Record(key=bytes.fromhex("0000ffff"), value=VALUE)],
    ],
)
def test_what_is_no_marker_is_named(records):
    with pytest.raises(MalformedRecords):
        read_control_batch(build_batch(records))
