"""Control batches: one record that ends a transaction of a producer in a partition.

Big endian.

===== ============================================================
part  fields
===== ============================================================
key   version, 16 bits, 0; type, 16 bits: 0 abort, 1 commit
value version, 16 bits, 0; coordinator epoch, 32 bits
===== ============================================================

The record takes an offset like any other and is never shown to an application. Fields that a later version adds
come after these and are ignored, as Kafka's readers do.
"""

from enum import IntEnum
from struct import Struct

import msgspec

from siltstone.kafka_protocol.batch_errors import MalformedRecords
from siltstone.kafka_protocol.records.reading import iterate_records
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


def read_control_batch(buffer: Buffer) -> TransactionMarker:
    """Of a batch whose header says that it is one. Raises MalformedRecords, also for the control records with which
    Kafka's own controllers talk, and what ``iterate_records`` does."""
    records = [*iterate_records(buffer)]
    if len(records) != 1:
        raise MalformedRecords(f"a control batch of {len(records)} records; it has one")
    key, value = records[0].key, records[0].value
    if key is None or value is None or len(key) < _KEY.size or len(value) < _VALUE.size:
        raise MalformedRecords("a control record that is too short")
    key_version, outcome = _KEY.unpack_from(key)
    value_version, coordinator_epoch = _VALUE.unpack_from(value)
    if key_version < 0 or value_version < 0 or outcome not in list(Outcome):
        raise MalformedRecords(
            f"control record of type {outcome}, versions {key_version} and {value_version}"
        )
    return TransactionMarker(Outcome(outcome), coordinator_epoch)
