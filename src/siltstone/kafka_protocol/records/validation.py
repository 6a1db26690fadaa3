"""What a broker can ask of a producer's records beyond the header: Kafka's LogValidator, as far as it reads records.

Costs a decompression and microseconds a record; a topic decides whether it is worth that. Read next: ``batch_checks``
for what is always asked.
"""

import msgspec

from siltstone.kafka_protocol.batch_errors import OffsetDeltaWrong, RecordCountWrong
from siltstone.kafka_protocol.records.reading import first_null_key, open_batch, read_records
from siltstone.model.buffers import Buffer
from siltstone.model.limits import DECOMPRESSED_BATCH_BYTES_MAX


class RecordsSummary(msgspec.Struct, frozen=True):
    """What the records say themselves. ``first_without_key`` is a place in the batch, from 0, as in Kafka's errors."""

    smallest_timestamp_ms: int
    largest_timestamp_ms: int
    first_without_key: int | None


def validate_records(
    buffer: Buffer, decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> RecordsSummary:
    """Reads every record of a batch that passed ``check_batch``: as many as the header says, each as long as it
    says, with offsets 0, 1, 2 … from the base.

    The largest timestamp may differ from the header's, which some clients leave at -1; Kafka corrects it, see
    ``patch_max_timestamp``. Raises what ``iterate_records`` does and OffsetDeltaWrong.
    """
    header, data = open_batch(buffer, decompressed_bytes_max)
    timestamps: list[int] = []
    keyless: int | None = None
    for index, record in enumerate(read_records(header, data)):
        if record.offset != header.base_offset + index:
            raise OffsetDeltaWrong(f"record {index} has offset delta {record.offset - header.base_offset}")
        timestamps.append(record.timestamp_ms)
        if record.key is None and keyless is None:
            keyless = index
    if not timestamps:
        raise RecordCountWrong("a batch of no records; send at least one")
    return RecordsSummary(min(timestamps), max(timestamps), keyless)


def first_record_without_key(
    buffer: Buffer, decompressed_bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX
) -> int | None:
    """Which record of the batch, from 0; None: all have one. Raises what ``iterate_records`` does."""
    return first_null_key(*open_batch(buffer, decompressed_bytes_max))
