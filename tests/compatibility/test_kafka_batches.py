"""Record batches as clients sent them: readable for ever, since they are stored as they came.

librdkafka's are those of confluent-kafka 2.16.1, taken from the socket. Java's were written by the classes of
kafka-clients 4.3.1, the marker by those of its broker. The records are the same in all.
"""

from pathlib import Path

import pytest

from siltstone.kafka_protocol.batch_checks import check_batch
from siltstone.kafka_protocol.batch_header import Codec, patch_offset_and_epoch, read_batch_header
from siltstone.kafka_protocol.records.building import build_batch, recompress
from siltstone.kafka_protocol.records.control import (
    Outcome,
    TransactionMarker,
    build_control_batch,
    read_control_batch,
)
from siltstone.kafka_protocol.records.looking_up import first_record_at_or_after, record_with_max_timestamp
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.kafka_protocol.records.validation import RecordsSummary, validate_records
from support.kafka.kafka_batches import as_written

FOLDER = Path(__file__).parent / "golden" / "kafka"
FIRST_MS = 1_700_000_000_000
CLIENTS = ["java", "librdkafka"]
RECORDS = [
    Record(
        offset=index,
        timestamp_ms=FIRST_MS + 7 * index,
        key=None if index == 2 else b"tail-%d" % (index % 3),
        value=None if index == 4 else b"siltstone " * 20,
        headers=(("trace", b"\x00\x01"), ("empty", None)) if index % 2 == 0 else (),
    )
    for index in range(6)
]


def golden(name: str) -> bytearray:
    return bytearray.fromhex((FOLDER / f"{name}.hex").read_text())


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("codec", Codec)
def test_batches_of_clients(client, codec):
    sent = golden(f"{client}_{codec.name.lower()}")
    header = check_batch(sent, len(sent))
    assert (header.codec, header.record_count, header.last_offset_delta) == (codec, 6, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4001, 3, 0)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (FIRST_MS, FIRST_MS + 35)
    assert as_written([*iterate_records(sent)]) == RECORDS
    assert validate_records(sent) == RecordsSummary(FIRST_MS, FIRST_MS + 35, (2,))
    assert first_record_at_or_after(sent, FIRST_MS + 8) == (2, FIRST_MS + 14)
    assert record_with_max_timestamp(sent) == (5, FIRST_MS + 35)


@pytest.mark.parametrize("client", CLIENTS)
def test_ours_is_byte_for_byte_that_of_clients(client):
    sent = golden(f"{client}_none")
    ours = build_batch(RECORDS, producer_id=4001, producer_epoch=3, base_sequence=0)
    patch_offset_and_epoch(ours, 0, read_batch_header(sent).partition_leader_epoch)
    assert ours == sent
    assert recompress(golden(f"{client}_zstd"), Codec.NONE) == sent


def test_snappy_in_both_forms():
    """Java frames it as xerial does, librdkafka not at all."""
    assert golden("java_snappy")[61:69] == b"\x82SNAPPY\0"
    assert golden("librdkafka_snappy")[61:69] != b"\x82SNAPPY\0"


def test_a_transaction_marker():
    stored = golden("java_control")
    marker = TransactionMarker(Outcome.COMMIT, 4)
    assert read_control_batch(stored) == marker
    ours = build_control_batch(marker, producer_id=4001, producer_epoch=3, timestamp_ms=FIRST_MS + 100)
    assert ours == stored


def test_every_golden_file_is_tested():
    names = {f"{client}_{codec.name.lower()}" for client in CLIENTS for codec in Codec} | {"java_control"}
    assert {path.stem for path in FOLDER.glob("*.hex")} == names
