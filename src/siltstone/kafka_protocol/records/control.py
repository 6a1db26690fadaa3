"""Control batches: each has one record, which marks the end of a producer's transaction in a partition.

Big endian.

===== ============================================================
part  fields
===== ============================================================
key   version, 16 bits, 0; type, 16 bits: 0 abort, 1 commit
value version, 16 bits, 0; coordinator epoch, 32 bits
===== ============================================================

The record has an offset like any other, and consumers never pass it to an application. Later versions add fields at the
end; they are ignored, as in Kafka's readers.
"""

from enum import IntEnum
from struct import Struct

import msgspec

from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.kafka_protocol.batch_header import CONTROL_BIT, NO_LEADER_EPOCH, TRANSACTIONAL_BIT
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.model.buffers import Buffer

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_VERSION = 0


class Outcome(IntEnum):
    """How a transaction ended."""

    ABORT = 0
    COMMIT = 1


class TransactionMarker(msgspec.Struct, frozen=True):
    outcome: Outcome
    coordinator_epoch: int


def build_control_batch(
    marker: TransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """Builds the batch that ends the producer's transaction in a partition, byte for byte as Kafka's leader does."""
    record = Record(
        timestamp_ms=timestamp_ms,
        key=_KEY.pack(_VERSION, marker.outcome),
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return build_batch(
        [record],
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        attributes=TRANSACTIONAL_BIT | CONTROL_BIT,
    )


def read_control_batch(buffer: Buffer) -> TransactionMarker:
    """Reads the transaction marker of a batch whose header has the control bit. Raises MalformedRecords, also for
    control records of other types, which Kafka's KRaft controllers write, and what ``iterate_records`` does."""
    records = [*iterate_records(buffer)]
    if len(records) != 1:
        raise MalformedRecords(f"a control batch has {len(records)} records instead of one")
    key, value = records[0].key, records[0].value
    if key is None or value is None or len(key) < _KEY.size or len(value) < _VALUE.size:
        raise MalformedRecords("the key or value of a control record is missing or too short")
    key_version, outcome = _KEY.unpack_from(key)
    value_version, coordinator_epoch = _VALUE.unpack_from(value)
    if key_version < 0 or value_version < 0 or outcome not in list(Outcome):
        raise MalformedRecords(
            f"a control record of type {outcome}, key version {key_version}, value version {value_version}, "
            "is not a transaction marker"
        )
    return TransactionMarker(Outcome(outcome), coordinator_epoch)
