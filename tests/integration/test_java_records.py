"""Record batches against Kafka's own classes: ours read by its consumer's, its producer's read by ours.

Java decides. One machine for the whole module, and few records, since each costs a call.
"""

import random
from collections.abc import Iterator, Sequence

import pytest

from oracles.java_records import JavaRecord, JavaRecords, running_java_records
from siltstone.kafka_protocol.batch_checks import check_batch
from siltstone.kafka_protocol.batch_header import Codec, patch_log_append_time, read_batch_header
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import (
    Outcome,
    TransactionMarker,
    build_control_batch,
    read_control_batch,
)
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.model.limits import MIB
from support.kafka.kafka_batches import as_written, encode_batch, numbered
from support.kafka.kafka_oracles import or_skip

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]
INT64_MAX = 2**63 - 1


@pytest.fixture(scope="module")
def java() -> Iterator[JavaRecords]:
    with or_skip(running_java_records) as found:
        yield found


def some_records(codec: Codec) -> list[Record]:
    rng = random.Random(codec.name)
    values = [b"", None, b"v" * 50, rng.randbytes(100_000), b"v" * 300_000]
    times = [-1, 0, 1_700_000_000_000, 1, INT64_MAX]
    headers = [(), (("Grüße", b"\x00"), ("", None)), (), (("h", b""),), ()]
    keys = [None, b"", b"key", rng.randbytes(70), None]
    return numbered(
        [
            Record(timestamp_ms=time, key=key, value=value, headers=header)
            for time, key, value, header in zip(times, keys, values, headers, strict=True)
        ]
    )


def as_java(records: Sequence[Record]) -> list[JavaRecord]:
    return [(one.offset, one.timestamp_ms, one.key, one.value, one.headers) for one in as_written([*records])]


@pytest.mark.parametrize("codec", Codec)
def test_java_reads_ours(java: JavaRecords, codec: Codec) -> None:
    records = some_records(codec)
    assert java.read(bytes(build_batch(records, compression=codec))) == as_java(records)


@pytest.mark.parametrize("codec", Codec)
def test_java_s_are_read(java: JavaRecords, codec: Codec) -> None:
    records = as_java(some_records(codec))
    theirs = java.build(records, codec.name, (4001, 3, 2**31 - 1))
    header = check_batch(theirs, MIB)
    assert (header.codec, header.producer_id, header.producer_epoch) == (codec, 4001, 3)
    assert header.last_sequence == 3
    assert as_java([*iterate_records(theirs)]) == records


def test_uncompressed_bytes_are_java_s(java: JavaRecords) -> None:
    records = some_records(Codec.NONE)
    ours = build_batch(records, producer_id=1, producer_epoch=2, base_sequence=3)
    assert ours == java.build(as_java(records), "none", (1, 2, 3))


def test_log_append_time(java: JavaRecords) -> None:
    batch = build_batch(some_records(Codec.GZIP), compression=Codec.GZIP)
    patch_log_append_time(batch, 99)
    read = java.read(bytes(batch))
    assert read == as_java([*iterate_records(batch)])
    assert {timestamp_ms for _, timestamp_ms, *_ in read} == {99}


def test_compacted_batches(java: JavaRecords) -> None:
    batch = build_batch(some_records(Codec.LZ4), base_offset=100, compression=Codec.LZ4)
    header = read_batch_header(batch)
    kept = [record for record in iterate_records(batch) if record.offset in {101, 104}]
    stored = bytes(encode_batch(header, kept)) + bytes(encode_batch(header, []))
    assert java.read(stored) == as_java(kept)


@pytest.mark.parametrize("outcome", Outcome)
def test_transaction_markers(java: JavaRecords, outcome: Outcome) -> None:
    theirs = java.control_batch(outcome == Outcome.COMMIT, 7, (4001, 3), 99)
    marker = TransactionMarker(outcome, 7)
    assert read_control_batch(theirs) == marker
    assert build_control_batch(marker, producer_id=4001, producer_epoch=3, timestamp_ms=99) == theirs
