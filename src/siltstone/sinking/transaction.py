"""Relays a batch in one transaction of the brokers: readers of committed records see all of it at once, or nothing.

The transactional id is that of the sink, so a driver that begins ends the transaction of the driver before. The
transaction also commits an offset of a group of the same name: the number of the batch, with the key of its manifest as
the text beside it. A driver that finds an intent asks the group for that text: if it is the intent's manifest, the
transaction was committed. If the group has no offset any more, because it has expired or was deleted, the marker of the
commit is looked for in the partition, provided that none was removed since the batch began.
"""

from collections.abc import Sequence

from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_client.offsets import LATEST, offsets_at
from siltstone.kafka_client.producing.progress import has_commit_between
from siltstone.kafka_client.producing.transaction import ProducerTransaction, committed_note
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.metadata.image import ImageView
from siltstone.metadata.refusals import SinkTakenOver
from siltstone.metadata.sinks import SinkBatch
from siltstone.model.limits import MINUTE_MS
from siltstone.object_store.port import ObjectStore
from siltstone.sinking.failures import SinkBatchStuck, SinkRefused, SinkTransactionTooLong
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.relay import TRANSACTION_OVER, Relay, partition_of
from siltstone.sinking.staging import StagedPart

TRANSACTION_TIMEOUT_MS = 5 * MINUTE_MS
"""How long the transaction of a batch may be open. A driver that dies holds back the readers of committed records for
so long at most, and until it is started again. At 80 MB a second a batch may have 24 GB."""

NAME_PREFIX = "spark-"


def transaction_name(sink_id: str) -> str:
    """Returns the transactional id of a sink, which is also the name of its group."""
    return f"{NAME_PREFIX}{sink_id}"


class SinkTransaction:
    """The next transaction of a sink; the one before it has ended. It closes ``cluster``. ``keeps_progress`` false: no
    other driver will ask whether the batch was written. Raises SinkRefused, KafkaRefusal, Unavailable."""

    def __init__(self, cluster: Cluster, sink_id: str, timeout_ms: int, *, keeps_progress: bool) -> None:
        self._cluster = cluster
        self._sink_id = sink_id
        self._name = transaction_name(sink_id)
        self._timeout_ms = timeout_ms
        self._keeps_progress = keeps_progress
        try:
            self._transaction = ProducerTransaction(cluster, self._name, timeout_ms)
        except KafkaRefusal as refusal:
            if refusal.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise SinkRefused(
                    f"the brokers do not allow a transaction of {timeout_ms} ms: give option transactionTimeout a"
                    " shorter one, or raise their setting broker.transaction_max_timeout_ms"
                ) from refusal
            raise
        self._began_ms = cluster.clock.monotonic_ms()

    @property
    def producer_id(self) -> int:
        return self._transaction.identity.producer_id

    def close(self) -> None:
        self._cluster.close()

    def was_committed(self, batch: SinkBatch, parts: Sequence[StagedPart], image: ImageView) -> bool:
        """Returns whether an earlier transaction has written the batch, which has these parts. Raises SinkBatchStuck,
        KafkaRefusal, Unavailable."""
        first = parts[0]
        note = committed_note(self._cluster, self._name, partition_of(first))
        return note == batch.manifest if note is not None else self._has_marker(batch, first, image)

    def write(self, store: ObjectStore, batch: SinkBatch, manifest: SinkManifest) -> None:
        """Writes the batch and commits the transaction. Raises SinkTakenOver, SinkTransactionTooLong, SinkBatchStuck,
        ManifestDamaged, KafkaRefusal, Unavailable."""
        relay = Relay(self._cluster, store, self._sink_id, batch, manifest, self._transaction)
        try:
            relay.send({})
            if self._keeps_progress:
                where = partition_of(manifest.parts[0])
                self._transaction.commit_offset(self._name, where, batch.batch_id, batch.manifest)
        except KafkaRefusal as refusal:
            raise self._over(refusal, batch) from refusal

    def commit(self, batch: SinkBatch, manifest: SinkManifest) -> None:
        """Commits what was written. Raises SinkTakenOver, SinkTransactionTooLong, KafkaRefusal, Unavailable."""
        try:
            self._transaction.commit()
        except KafkaRefusal as refusal:
            # The answer to a first request may be lost, and another driver may have begun since.
            where = partition_of(manifest.parts[0])
            if self._keeps_progress and committed_note(self._cluster, self._name, where) == batch.manifest:
                return
            raise self._over(refusal, batch) from refusal

    def _over(self, refusal: KafkaRefusal, batch: SinkBatch) -> Exception:
        if refusal.code not in TRANSACTION_OVER:
            return refusal
        if self._cluster.clock.monotonic_ms() - self._began_ms >= self._timeout_ms:
            return SinkTransactionTooLong(self._sink_id, batch.batch_id, self._timeout_ms)
        return SinkTakenOver(
            f"another process has started a transaction of sink {self._sink_id} and finishes batch {batch.batch_id};"
            f" stop this one ({refusal})"
        )

    def _has_marker(self, batch: SinkBatch, part: StagedPart, image: ImageView) -> bool:
        partition, stream = partition_of(part), image.streams[part.stream_id]
        start = next(each.start_offset for each in batch.targets if each.stream_id == part.stream_id)
        end = offsets_at(self._cluster, [partition], LATEST)[partition].offset
        if stream.start_offset > start or (stream.cleaned_offset > start and end > start):
            what = "retention" if stream.start_offset > start else "key compaction"
            raise SinkBatchStuck(
                self._sink_id,
                batch.batch_id,
                str(partition),
                f"group {self._name} has lost its offset, and {what} has removed records behind offset {start}, where"
                " the batch began",
            )
        return has_commit_between(self._cluster, partition, batch.producer_id, start, end)
