"""Produces the parts of a batch through the brokers, each record once, however many drivers begin and resume it.

All batches of a sink are sent by one idempotent producer, whose id and sequence numbers are in the sink's record. So a
broker recognises record batches that it already has. A process that resumes asks the brokers how far the producer came.
If a broker has forgotten the producer, the batches in the partition show it, provided that none was removed since the
batch of the sink began. If some were removed, the batch is stuck: sending it again could write rows twice.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.consuming import whole_batches
from siltstone.kafka_client.failures import KafkaRefusal, TopicUnknown
from siltstone.kafka_client.offsets import LATEST, offsets_at
from siltstone.kafka_client.producing.delivery import Delivery, OutgoingBatch
from siltstone.kafka_client.producing.progress import described_sequences, last_sequence_between
from siltstone.kafka_client.producing.transaction import ProducerTransaction
from siltstone.kafka_protocol.batch_header import SEQUENCE_MASK, patch_producer
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.metadata.image import ImageView
from siltstone.metadata.sinks import SinkBatch, SinkTarget
from siltstone.model.errors import Unavailable
from siltstone.object_store.port import ObjectStore
from siltstone.sinking.failures import SinkBatchStuck
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.staging import StagedPart

log = logging.getLogger(__name__)

SEQUENCES = SEQUENCE_MASK + 1

TRANSACTION_OVER = frozenset({
    ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTION_ABORTABLE,
})  # fmt: skip
"""The transaction was ended by its time-out, or by another driver."""


class RelayOverlaps(Unavailable):
    """Another process relays the same batch: the producer is further than this process knows, so this process asks
    again."""


class Relay:
    """The relay of one batch. ``batch`` is an intent, and ``manifest`` is its own. ``transaction``: the records are
    part of it, and have its producer."""

    def __init__(
        self,
        cluster: Cluster,
        store: ObjectStore,
        sink_id: str,
        batch: SinkBatch,
        manifest: SinkManifest,
        transaction: ProducerTransaction | None = None,
    ) -> None:
        self._transaction = transaction
        self._cluster = cluster
        self._store = store
        self._sink_id = sink_id
        self._batch = batch
        self._manifest = manifest
        self._targets = {target.stream_id: target for target in batch.targets}
        self._number = 0

    def end_targets(self) -> tuple[SinkTarget, ...]:
        """Returns the next sequence number of the producer in each stream after the batch."""
        return tuple(
            SinkTarget(
                stream_id,
                (self._targets[stream_id].next_sequence + sum(part.record_count for part in parts))
                % SEQUENCES,
                self._targets[stream_id].start_offset,
            )
            for stream_id, parts in self._manifest.streams()
        )

    def done_records(self, image: ImageView) -> dict[int, int]:
        """Returns how many of the batch's records each stream has already. Raises SinkBatchStuck, and what the brokers
        raise."""
        places = {stream_id: parts[0] for stream_id, parts in self._manifest.streams()}
        partitions = {stream_id: partition_of(part) for stream_id, part in places.items()}
        described = described_sequences(self._cluster, partitions.values(), self._batch.producer_id)
        done: dict[int, int] = {}
        for stream_id, parts in self._manifest.streams():
            total = sum(part.record_count for part in parts)
            last = described.get(partitions[stream_id])
            if last is None or last < 0:
                last = self._looked_up(image, stream_id, partitions[stream_id])
            target = self._targets[stream_id]
            count = 0 if last is None else (last + 1 - target.next_sequence) % SEQUENCES
            if count > total:
                self._stuck(
                    partitions[stream_id],
                    f"its producer is at sequence {last}, which is not one of this batch"
                    f" ({target.next_sequence} to {target.next_sequence + total - 1})",
                )
            done[stream_id] = count
        return done

    def send(self, done: Mapping[int, int]) -> None:
        """Sends what is missing and waits until all of it is acknowledged. Raises SinkBatchStuck when a broker refuses
        a record for good, RelayOverlaps, Unavailable, and ManifestDamaged; in a transaction also KafkaRefusal, when
        the broker does not take more of it."""
        topic_ids = {part.topic: bytes.fromhex(part.topic_id) for part in self._manifest.parts}
        delivery = Delivery(
            self._cluster,
            lambda _batch, _offset: None,
            lambda text: log.warning("%s", text),
            topic_ids,
            self._transaction.transactional_id if self._transaction else None,
        )
        try:
            for outgoing in self._outgoing(done):
                delivery.send([outgoing])
            delivery.wait()
        except (KafkaRefusal, TopicUnknown) as refusal:
            if self._transaction and isinstance(refusal, KafkaRefusal) and refusal.code in TRANSACTION_OVER:
                raise
            if isinstance(refusal, KafkaRefusal) and refusal.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise RelayOverlaps(str(refusal)) from refusal
            raise SinkBatchStuck(
                self._sink_id,
                self._batch.batch_id,
                "a partition",
                f"its broker refuses records for good: {refusal}",
            ) from refusal

    def _outgoing(self, done: Mapping[int, int]) -> Iterator[OutgoingBatch]:
        """Yields the record batches that are missing, in the order of the parts, each as the producer's next."""
        passed: dict[int, int] = {}
        for part in self._manifest.parts:
            before = passed.get(part.stream_id, 0)
            passed[part.stream_id] = before + part.record_count
            if passed[part.stream_id] <= done.get(part.stream_id, 0):
                continue
            yield from self._batches_of(part, before, done.get(part.stream_id, 0))

    def _batches_of(self, part: StagedPart, before: int, done: int) -> Iterator[OutgoingBatch]:
        base = self._targets[part.stream_id].next_sequence
        for header, data in whole_batches(memoryview(self._manifest.bytes_of(self._store, part))):
            first, before = before, before + header.record_count
            if before <= done:
                continue
            if first < done:
                self._stuck(
                    partition_of(part), f"its producer ended inside a record batch, after {done} records"
                )
            batch = bytearray(data)
            sequence = (base + first) % SEQUENCES
            if self._transaction is None:
                patch_producer(batch, self._batch.producer_id, 0, sequence)
            else:
                producer = self._transaction.identity
                patch_producer(batch, producer.producer_id, producer.epoch, sequence, is_transactional=True)
            self._number += 1
            yield OutgoingBatch(
                number=self._number,
                partition=partition_of(part),
                data=batch,
                lines=[*range(first + 1, before + 1)],
            )

    def _looked_up(self, image: ImageView, stream_id: int, partition: TopicPartition) -> int | None:
        """Returns the last sequence of the producer since the batch began, read from the partition."""
        start = self._targets[stream_id].start_offset
        stream = image.streams[stream_id]
        end = offsets_at(self._cluster, [partition], LATEST)[partition].offset
        if stream.start_offset > start or (stream.cleaned_offset > start and end > start):
            what = "retention" if stream.start_offset > start else "key compaction"
            self._stuck(
                partition,
                f"its broker has forgotten the producer, and {what} has removed records behind offset {start}, where"
                " the batch began",
            )
        return last_sequence_between(self._cluster, partition, self._batch.producer_id, start, end)

    def _stuck(self, partition: TopicPartition, reason: str) -> None:
        raise SinkBatchStuck(self._sink_id, self._batch.batch_id, str(partition), reason)


def start_offsets(cluster: Cluster, parts: Sequence[StagedPart]) -> tuple[SinkTarget, ...]:
    """Returns each stream of the parts with its high watermark. The sequence numbers are assigned later, by the command
    that begins the batch."""
    partitions = {part.stream_id: partition_of(part) for part in parts}
    found = offsets_at(cluster, set(partitions.values()), LATEST)
    return tuple(
        SinkTarget(stream_id, 0, found[partition].offset)
        for stream_id, partition in sorted(partitions.items())
    )


def partition_of(part: StagedPart) -> TopicPartition:
    """Returns the partition that a part is for."""
    return TopicPartition(part.topic, part.partition)
