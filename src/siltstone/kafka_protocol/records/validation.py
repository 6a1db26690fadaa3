"""Checks the records inside a producer's batch, with the rules of Kafka's LogValidator.

This costs a decompression and some microseconds per record, so the broker does it only where a topic's configuration
needs it. ``batch_checks`` has the checks of the header, which are always made.
"""

import msgspec

from siltstone.kafka_protocol.batch_errors import OffsetDeltaWrong, RecordCountWrong
from siltstone.kafka_protocol.records.reading import open_batch, read_records, records_without_key
from siltstone.model.buffers import Buffer
from siltstone.model.limits import DECOMPRESSED_BATCH_BYTES_MAX

RECORDS_NAMED_MAX = 10_000
"""The most refused records that are named to a producer: as many as librdkafka puts into a batch by default. A producer
that sends the others again learns of them then."""


class RecordsSummary(msgspec.Struct, frozen=True):
    """``without_key`` has the indexes in the batch, from 0 as in Kafka's record errors, of the first RECORDS_NAMED_MAX
    records without a key."""

    smallest_timestamp_ms: int
    largest_timestamp_ms: int
    without_key: tuple[int, ...]


def validate_records(
    buffer: Buffer, decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> RecordsSummary:
    """Reads every record of a batch that passed ``check_batch`` and checks number, lengths and offset deltas. The
    deltas must be 0, 1, 2 …

    The largest timestamp may differ from the header's max timestamp, which some clients leave at -1; Kafka corrects it,
    see ``patch_max_timestamp``. Raises what ``iterate_records`` does and OffsetDeltaWrong.
    """
    header, data = open_batch(buffer, decompressed_bytes_max, as_kafka=True)
    timestamps: list[int] = []
    without_key: list[int] = []
    for index, record in enumerate(read_records(header, data)):
        if record.offset != header.base_offset + index:
            raise OffsetDeltaWrong(
                f"record {index} has offset delta {record.offset - header.base_offset}; send 0, 1, 2 …"
            )
        timestamps.append(record.timestamp_ms)
        if record.key is None and len(without_key) < RECORDS_NAMED_MAX:
            without_key.append(index)
    if not timestamps:
        raise RecordCountWrong("the batch has no records; send at least one")
    return RecordsSummary(min(timestamps), max(timestamps), tuple(without_key))


def validate_keys(
    buffer: Buffer, decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> tuple[int, ...]:
    """Reads the offset delta and the key of every record, which is what key compaction depends on. → The indexes, from
    0, of the first RECORDS_NAMED_MAX records without a key. Raises what ``iterate_records`` does and
    OffsetDeltaWrong."""
    return tuple(
        records_without_key(*open_batch(buffer, decompressed_bytes_max, as_kafka=True), RECORDS_NAMED_MAX)
    )
