"""The producer: chooses the partition of each record, collects records into batches, and sends them.

``add`` sends a batch when it is full; ``flush`` returns when the broker has acknowledged every record. All open
batches together are limited to OPEN_BYTES_MAX. A producer id from the broker (KIP-98) lets the broker recognise
repeated batches.

A record with a key goes to the partition of its key (``records.key_partition``). Records without a key go to one
partition until its batch is full, then to the next [Kafka: BuiltInPartitioner]. Read next: ``delivery``.
"""

from collections.abc import Callable, Iterator

import msgspec

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.failures import refuse_error
from siltstone.kafka_client.producing.delivery import UNKNOWN_OFFSET, Delivery, OutgoingBatch, OutgoingRecord
from siltstone.kafka_protocol.batch_header import BATCH_HEADER_BYTES, SEQUENCE_MASK, Codec
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.key_partition import partition_of_key
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.limits import KIB, MIB

_NO_TRANSACTIONS_TIMEOUT_MS = 60_000
"""The broker ignores the timeout without a transactional id, but the field must be positive."""


class ProducerIdentity(msgspec.Struct, frozen=True):
    producer_id: int
    epoch: int


def new_identity(cluster: Cluster) -> ProducerIdentity:
    """Obtains a producer id and epoch from the broker. Raises KafkaRefusal, KafkaNotReady."""
    return cluster.patiently(lambda: _new_identity(cluster))


def _new_identity(cluster: Cluster) -> ProducerIdentity:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTIONS_TIMEOUT_MS)
    answer = cluster.ask(request, InitProducerIdResponse)
    refuse_error(answer.error_code, "a producer id")
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


class RoundRobin:
    """Chooses the partition of records without a key: one partition per batch, in turn."""

    def __init__(self, partition_count: int, first: int) -> None:
        self._partition_count = partition_count
        self.partition = first % partition_count

    def turn(self) -> None:
        """Moves on to the next partition, when the batch is full."""
        self.partition = (self.partition + 1) % self._partition_count


BATCH_BYTES = 256 * KIB
"""The size of a full batch before compression. Larger batches gain little, and this is well below Kafka's usual
``max.message.bytes`` of 1 MiB."""
REQUEST_BYTES = 4 * MIB
OPEN_BYTES_MAX = 32 * MIB
"""The limit of all open batches together: full batches for ten thousand partitions would take gigabytes."""
RECORD_OVERHEAD_BYTES = 32
"""The most bytes that lengths, deltas and attributes of one record take."""


class _OpenBatch:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.lines: list[int] = []
        self.size_bytes = BATCH_HEADER_BYTES


class PartitionDelivery(msgspec.Struct):
    """The records that one partition has acknowledged; an offset is −1 if the broker could not report it."""

    records: int = 0
    first_offset: int = UNKNOWN_OFFSET
    last_offset: int = UNKNOWN_OFFSET


class Producer:
    """Produces to one topic of ``partition_count`` partitions; ``batch_bytes_max`` is the topic's max.message.bytes."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partition_count: int,
        *,
        compression: Codec = Codec.NONE,
        batch_bytes_max: int = BATCH_BYTES,
        on_trouble: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partition_count = partition_count
        self._compression = compression
        self._batch_bytes_max = min(BATCH_BYTES, batch_bytes_max)
        self._keyless = RoundRobin(partition_count, cluster.rng.randrange(partition_count))
        self._open: dict[int, _OpenBatch] = {}
        self._open_bytes = 0
        self._next_sequences: dict[int, int] = {}
        self._identity = new_identity(cluster)
        self._delivery = Delivery(cluster, self._delivered, on_trouble)
        self.batches = 0
        self.acknowledgements = 0
        """How many batches the broker has acknowledged. Another thread may read it, and ``is_waiting``."""
        self.wire_bytes = 0
        self.partitions: dict[int, PartitionDelivery] = {}

    @property
    def is_waiting(self) -> bool:
        """Whether batches were sent that are not acknowledged yet."""
        return self._delivery.is_waiting

    @property
    def records(self) -> int:
        """The number of records that the broker has acknowledged."""
        return sum(partition.records for partition in self.partitions.values())

    @property
    def records_unacknowledged(self) -> int:
        """The number of records that were sent without a response: the broker may have appended them or not."""
        return self._delivery.records_unacknowledged

    def add(self, record: OutgoingRecord) -> None:
        """Adds a record to the open batch of its partition; sends batches that are full. Raises what ``Delivery.send``
        does."""
        number = self._partition_of(record)
        size_bytes = _size_of(record)
        opened = self._open.get(number)
        if opened is not None and opened.size_bytes + size_bytes > self._batch_bytes_max:
            self._delivery.send([self._sealed(number)])
            number = self._partition_of(record)
            opened = self._open.get(number)
        if opened is None:
            opened = self._open[number] = _OpenBatch()
        opened.records.append(self._written(record))
        opened.lines.append(record.line)
        opened.size_bytes += size_bytes
        self._open_bytes += size_bytes
        if self._open_bytes > OPEN_BYTES_MAX:
            self._send_open()

    def flush(self) -> None:
        """Sends all open batches and waits until every record is acknowledged. Raises what ``Delivery.wait`` does."""
        self._send_open()
        self._delivery.wait()

    def _partition_of(self, record: OutgoingRecord) -> int:
        if record.partition is not None:
            return record.partition
        if record.key is None:
            return self._keyless.partition
        return partition_of_key(record.key, self._partition_count)

    def _written(self, record: OutgoingRecord) -> Record:
        timestamp_ms = self._cluster.clock.now_ms() if record.timestamp_ms is None else record.timestamp_ms
        return Record(timestamp_ms=timestamp_ms, key=record.key, value=record.value, headers=record.headers)

    def _send_open(self) -> None:
        for request in self._requests():
            self._delivery.send(request)

    def _requests(self) -> Iterator[list[OutgoingBatch]]:
        gathered: list[OutgoingBatch] = []
        gathered_bytes = 0
        for number in list(self._open):
            gathered.append(self._sealed(number))
            gathered_bytes += len(gathered[-1].data)
            if gathered_bytes >= REQUEST_BYTES:
                yield gathered
                gathered, gathered_bytes = [], 0
        if gathered:
            yield gathered

    def _sealed(self, number: int) -> OutgoingBatch:
        opened = self._open.pop(number)
        self._open_bytes -= opened.size_bytes - BATCH_HEADER_BYTES
        if number == self._keyless.partition:
            self._keyless.turn()
        sequence = self._next_sequences.get(number, 0)
        self._next_sequences[number] = (sequence + len(opened.records)) & SEQUENCE_MASK
        data = build_batch(
            opened.records,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=sequence,
            compression=self._compression,
        )
        self.batches += 1
        self.wire_bytes += len(data)
        partition = TopicPartition(self._topic, number)
        return OutgoingBatch(number=self.batches, partition=partition, data=data, lines=opened.lines)

    def _delivered(self, batch: OutgoingBatch, base_offset: int) -> None:
        counts = self.partitions.setdefault(batch.partition.partition, PartitionDelivery())
        counts.records += len(batch.lines)
        self.acknowledgements += 1
        if base_offset != UNKNOWN_OFFSET:
            counts.first_offset = (
                base_offset if counts.first_offset == UNKNOWN_OFFSET else counts.first_offset
            )
            counts.last_offset = base_offset + len(batch.lines) - 1


def _size_of(record: OutgoingRecord) -> int:
    """Returns an upper bound of the record's encoded size."""
    headers = sum(len(name) * 3 + len(value or b"") + 10 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers + RECORD_OVERHEAD_BYTES
