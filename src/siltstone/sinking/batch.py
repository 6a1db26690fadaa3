"""Ends a batch of a sink on the driver, in steps: the intent, the relay or the load, and the record that the batch is
done.

The process may die after each step. Before the intent nothing of the batch is stored, and its staged objects are
deleted a day later. After the intent the next driver of the sink finishes the batch, with the parts that the intent
names. After the last write the record says that the batch is done, and a repetition changes nothing.

In mode TRANSACTION the relay is one transaction of the brokers, which ``transaction`` begins and commits. If the caller
names no mode, a batch is relayed where there is a broker: one of its streams is open, or a broker of the
store answers. Otherwise the batch is loaded, in mode OBJECTS. If a broker opens the streams after a load was started,
the batch is relayed instead. This is safe: a load shows nothing before its commit."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import parse_bootstrap, security_of_process
from siltstone.kafka_client.failures import NotKafka, RequestNotSpoken
from siltstone.kafka_client.producing.producer import new_identity
from siltstone.metadata.commands import RemoveKey
from siltstone.metadata.entities import StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.node_address import node_address, stored_cluster_id
from siltstone.metadata.refusals import StreamNotExist
from siltstone.metadata.sinks import (
    OBJECTS,
    RELAY,
    SINK_PREFIX,
    TRANSACTION,
    BeginSinkBatch,
    CommitSinkBatch,
    SinkBatch,
    SinkState,
    SinkTarget,
    batch_folder,
    sink_of,
)
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.object_store.port import ObjectStore
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.runtime.randomness import random_token
from siltstone.scanning.tail import Stranger, refuse_stranger
from siltstone.sinking.failures import (
    BrokerNotFound,
    SinkBatchStuck,
    SinkOutcomeUnknown,
    TopicGoneForSink,
)
from siltstone.sinking.load import load_batch, undecided_before
from siltstone.sinking.load_plan import closed_stream
from siltstone.sinking.manifest import (
    SinkManifest,
    delete_staged,
    get_manifest,
    manifest_of,
    put_manifest,
)
from siltstone.sinking.plan import SinkPlan
from siltstone.sinking.relay import Relay, RelayOverlaps, start_offsets
from siltstone.sinking.staging import StagedPart, TaskReport
from siltstone.sinking.transaction import TRANSACTION_TIMEOUT_MS, SinkTransaction

log = logging.getLogger(__name__)

OVERLAPS_MAX = 5
"""While another process relays the same batch, the relay asks the brokers again up to which sequence the producer has
written, at most this many times."""

Step = Callable[[str], None]
"""Called with the name of each step that is done; tests kill the process there."""


class SinkDriver:
    """The driver of one batch of a sink. ``bootstrap`` overrides the addresses of brokers in the metadata. ``mode`` is
    RELAY, OBJECTS, TRANSACTION, or None for RELAY or OBJECTS, as it fits. ``transaction_timeout_ms``: how long the
    transaction of a batch may be open. The record of a nameless sink is removed when its only batch is done,
    or is known not to be written at all, because no other driver knows the sink's id."""

    def __init__(
        self,
        source: MaintenanceContext,
        plan: SinkPlan,
        sink_id: str,
        bootstrap: str | None = None,
        on_step: Step = lambda _: None,
        *,
        mode: str | None = None,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        is_nameless: bool = False,
    ) -> None:
        self._mode = mode
        self._transaction_timeout_ms = transaction_timeout_ms
        self._transaction: SinkTransaction | None = None
        """That of the batch, from before its intent on."""
        self._is_written = False
        self._source = source
        self._plan = plan
        self._sink_id = sink_id
        self._bootstrap = bootstrap
        self._on_step = on_step
        self._is_nameless = is_nameless
        self._driver = random_token(source.rng)

    def commit(self, query_id: str, batch_id: int, reports: Sequence[TaskReport]) -> SinkState:
        """Writes the batch unless it is done already. Returns once every Kafka record is acknowledged and the sink's
        record says done. Raises the refusals of BeginSinkBatch, SinkTakenOver, SinkBatchStuck, TopicGoneForSink,
        BrokerNotFound, StreamNotClosed, SinkStreamMoved, SinkOutcomeUnknown, SinkTransactionTooLong, Unavailable."""
        try:
            return self._commit(query_id, batch_id, reports)
        finally:
            if self._transaction is not None:
                self._transaction.close()

    def _commit(self, query_id: str, batch_id: int, reports: Sequence[TaskReport]) -> SinkState:
        metadata = self._source.metadata
        standing = sink_of(metadata.refresh(), self._sink_id)
        manifest = manifest_of(reports)
        is_new = standing is None or (standing.query_id == query_id and standing.batch_id < batch_id)
        key, begun = self._begin(standing, manifest, query_id, batch_id, reports, is_new=is_new)
        self._on_step("intent")
        store = store_at(self._plan.bucket_url)
        if not begun.is_over:
            is_ours = is_new and begun.manifest == key
            if not is_ours:
                log.warning(
                    "batch %d of sink %s was started before and is finished with its own parts",
                    batch_id,
                    self._sink_id,
                )
                manifest_begun = self._manifest(store, begun)
            else:
                manifest_begun = manifest
            if begun.mode == OBJECTS and manifest_begun.parts:
                self._load(begun, manifest_begun)
            else:
                was_loading = standing is not None and standing.mode == OBJECTS
                if begun.mode == TRANSACTION:
                    self._transact(store, begun, manifest_begun)
                    targets: tuple[SinkTarget, ...] = ()
                else:
                    targets = self._relay(
                        store, begun, manifest_begun, is_resumed=not is_ours and not was_loading
                    )
                self._on_step("relayed")
                metadata.execute(CommitSinkBatch(self._sink_id, batch_id, self._driver, targets))
            self._on_step("done")
            delete_staged(store, [begun.manifest, *(part.key for part in manifest_begun.parts)])
        delete_staged(store, [part.key for part in manifest.parts])
        if self._is_nameless:
            metadata.execute(RemoveKey(f"{SINK_PREFIX}{self._sink_id}"))
        return SinkState.DONE

    def abort(self, query_id: str, batch_id: int, reports: Sequence[TaskReport]) -> None:
        """Deletes what the tasks have staged, unless the sink's record, just read, has the batch as an intent: Spark
        calls this after a commit that failed, too."""
        try:
            standing = sink_of(self._source.metadata.refresh(), self._sink_id)
        except Unavailable:
            return
        if standing is not None and standing.batch_id == batch_id and not standing.is_over:
            return
        keys = [part.key for report in reports for part in report.parts]
        delete_staged(store_at(self._plan.bucket_url), keys)

    # -- steps

    def _begin(
        self,
        standing: SinkBatch | None,
        manifest: SinkManifest,
        query_id: str,
        batch_id: int,
        reports: Sequence[TaskReport],
        *,
        is_new: bool,
    ) -> tuple[str, SinkBatch]:
        """Writes the manifest and the intent. Returns the manifest's key and the batch that the sink's record then has.
        Conditions that could fail permanently are checked before the intent: the topics exist, and a broker answers or
        the streams are closed."""
        source = self._source
        store = store_at(self._plan.bucket_url)
        key, crc, producer_id = "", 0, -1
        targets: tuple[SinkTarget, ...] = ()
        mode = self._mode or (RELAY if standing is None else standing.mode)
        is_over = standing is None or standing.is_over
        if is_new and manifest.parts and is_over:
            mode = self._mode or self._fitting_mode(manifest.parts)
            if mode == RELAY:
                producer_id, targets = self._producer(standing, manifest.parts)
            elif mode == TRANSACTION:
                producer_id, targets = self._begin_transaction(manifest.parts)
            else:
                self._check_closed(manifest.parts)
            folder = batch_folder(self._sink_id, batch_id)
            key, crc = put_manifest(store, folder, manifest, source.rng)
            self._on_step("staged")
        elif standing is not None and not is_over and standing.mode == OBJECTS:
            parts = self._manifest(store, standing).parts
            if self._mode == RELAY or (self._mode is None and self._any_open(parts)):
                mode = RELAY
                producer_id, targets = self._producer(standing, parts)
        elif standing is not None and _is_transaction_of(standing, mode, query_id, batch_id):
            # The intent is resumed with the producer of the new transaction, so first the outcome of the one before is
            # looked up, by its own.
            parts = self._manifest(store, standing).parts
            producer_id, _ = self._begin_transaction(parts, standing)
        staged_ms = min((report.staged_ms for report in reports), default=source.clock.now_ms())
        wanted = SinkBatch(
            mode, query_id, batch_id, SinkState.INTENT, self._driver, producer_id, key, crc, 0, self._plan.schema,
            targets,
        )  # fmt: skip
        return key, source.metadata.execute(BeginSinkBatch(self._sink_id, wanted, staged_ms))

    def _fitting_mode(self, parts: Sequence[StagedPart]) -> str:
        """Returns the mode of a batch for which the caller has named none."""
        if self._bootstrap is not None or self._any_open(parts):
            return RELAY
        try:
            self._cluster(parts).close()
        except BrokerNotFound as absent:
            log.info("sink %s writes objects, because no broker is there: %s", self._sink_id, absent)
            return OBJECTS
        return RELAY

    def _any_open(self, parts: Sequence[StagedPart]) -> bool:
        streams = self._source.metadata.image.streams
        found = (streams.get(part.stream_id) for part in parts)
        return any(stream is not None and stream.state is StreamState.OPENED for stream in found)

    def _check_closed(self, parts: Sequence[StagedPart]) -> None:
        image = self._source.metadata.image
        for part in {part.stream_id: part for part in parts}.values():
            closed_stream(image, part)

    def _producer(
        self, standing: SinkBatch | None, parts: Sequence[StagedPart]
    ) -> tuple[int, tuple[SinkTarget, ...]]:
        """Returns the sink's producer, a new one if it has none, and the high watermarks of the streams."""
        with self._cluster(parts) as cluster:
            producer_id = standing.producer_id if standing is not None else -1
            if producer_id < 0:
                producer_id = new_identity(cluster).producer_id
            return producer_id, start_offsets(cluster, parts)

    def _begin_transaction(
        self, parts: Sequence[StagedPart], resumed: SinkBatch | None = None
    ) -> tuple[int, tuple[SinkTarget, ...]]:
        """Ends the transaction before, and notes whether it has written the batch ``resumed``."""
        try:
            cluster = self._cluster(parts)
        except TopicGoneForSink as gone:
            if resumed is None:
                raise
            raise SinkBatchStuck(
                self._sink_id, resumed.batch_id, gone.topic, "the topic was deleted"
            ) from gone
        try:
            self._transaction = SinkTransaction(
                cluster, self._sink_id, self._transaction_timeout_ms, keeps_progress=not self._is_nameless
            )
        except BaseException:
            cluster.close()
            raise
        if resumed is None:
            return self._transaction.producer_id, start_offsets(cluster, parts)
        self._is_written = self._transaction.was_committed(resumed, parts, self._source.metadata.refresh())
        return self._transaction.producer_id, ()

    def _transact(self, store: ObjectStore, begun: SinkBatch, manifest: SinkManifest) -> None:
        if self._is_written or not manifest.parts:
            return
        assert self._transaction is not None, "a batch with parts has one"
        self._on_step("relaying")
        self._transaction.write(store, begun, manifest)
        self._on_step("sent")
        self._transaction.commit(begun, manifest)

    def _load(self, begun: SinkBatch, manifest: SinkManifest) -> None:
        command = CommitSinkBatch(self._sink_id, begun.batch_id, self._driver, ())
        try:
            load_batch(self._source, self._plan, manifest, command, self._on_step)
            self._warn_of_transactions(manifest)
        except SinkOutcomeUnknown:
            raise
        except (TopicGoneForSink, StreamNotExist) as gone:
            self._forget_nameless()
            topic = gone.topic if isinstance(gone, TopicGoneForSink) else manifest.parts[0].topic
            if self._is_nameless:
                raise TopicGoneForSink(topic) from gone
            reason = "the topic was deleted, and none of its records were written"
            raise SinkBatchStuck(self._sink_id, begun.batch_id, topic, reason) from gone
        except SiltstoneError:
            self._forget_nameless()
            raise

    def _warn_of_transactions(self, manifest: SinkManifest) -> None:
        try:
            undecided = undecided_before(self._source, manifest)
        except SiltstoneError as trouble:  # the batch is written all the same
            log.info("open transactions before a batch of sink %s are not known: %s", self._sink_id, trouble)
            return
        for partition, offset in undecided.items():
            log.warning(
                "sink %s has loaded rows into %s behind a transaction that is open from offset %d on: readers of"
                " committed records get them when a broker has ended it; start siltstone serve, which aborts it after"
                " its time-out",
                self._sink_id, partition, offset,
            )  # fmt: skip

    def _forget_nameless(self) -> None:
        """Removes the record of a nameless sink that has written nothing, because no other driver could finish its
        batch."""
        if self._is_nameless:
            with suppress(SiltstoneError):
                self._source.metadata.execute(RemoveKey(f"{SINK_PREFIX}{self._sink_id}"))

    def _manifest(self, store: ObjectStore, begun: SinkBatch) -> SinkManifest:
        if not begun.manifest:
            return manifest_of(())
        return get_manifest(store, begun.manifest, begun.manifest_crc)

    def _relay(
        self, store: ObjectStore, begun: SinkBatch, manifest: SinkManifest, *, is_resumed: bool
    ) -> tuple[SinkTarget, ...]:
        if not manifest.parts:
            return ()
        try:
            with self._cluster(manifest.parts) as cluster:
                relay = Relay(cluster, store, self._sink_id, begun, manifest)
                done = relay.done_records(self._source.metadata.refresh()) if is_resumed else {}
                self._on_step("relaying")
                for attempt in range(OVERLAPS_MAX):
                    try:
                        relay.send(done)
                        break
                    except RelayOverlaps:
                        if attempt + 1 == OVERLAPS_MAX:
                            raise
                        done = relay.done_records(self._source.metadata.refresh())
                return relay.end_targets()
        except TopicGoneForSink as gone:
            raise SinkBatchStuck(self._sink_id, begun.batch_id, gone.topic, "the topic was deleted") from gone

    def _cluster(self, parts: Sequence[StagedPart]) -> Cluster:
        """Returns the brokers, after a check that they are this store's and have the topics. Raises BrokerNotFound,
        ListenerMissing, TopicGoneForSink."""
        image = self._source.metadata.refresh()
        topics = {part.topic: part.topic_id for part in parts}
        for name, topic_id in topics.items():
            if topic_id not in image.topics:
                raise TopicGoneForSink(name)
        source = self._source
        security = source.security or security_of_process()
        streams = [part.stream_id for part in parts]
        address = self._bootstrap or _addresses(image, streams, security.settings.listener)
        if not address:
            raise BrokerNotFound(
                "the metadata has no address of a broker: start siltstone serve for this store"
            )
        bootstrap = parse_bootstrap(address, "node-address")
        cluster = Cluster(bootstrap, source.clock, source.rng, security)
        try:
            for name, topic_id in topics.items():
                refuse_stranger(cluster, stored_cluster_id(image), name, topic_id)
        except (Stranger, NotKafka, RequestNotSpoken, Unavailable) as trouble:
            cluster.close()
            raise BrokerNotFound(
                f"the broker at {address} cannot be asked to write: {trouble}; start siltstone serve for this store"
            ) from trouble
        return cluster


def _is_transaction_of(standing: SinkBatch, mode: str, query_id: str, batch_id: int) -> bool:
    """Returns whether the recorded batch is an intent of mode TRANSACTION, and this is a repetition of it. A process
    that has another batch must not end its transaction."""
    is_repeated = (standing.query_id, standing.batch_id) == (query_id, batch_id)
    return (
        is_repeated
        and not standing.is_over
        and mode == standing.mode == TRANSACTION
        and bool(standing.manifest)
    )


def abandon(source: MaintenanceContext, sink_id: str) -> SinkBatch | None:
    """Gives up the unfinished batch of a sink; returns it, or None if the sink has none. Raises what the metadata
    raises."""
    standing = sink_of(source.metadata.refresh(), sink_id)
    if standing is None or standing.is_over:
        return None
    metadata, driver = source.metadata, random_token(source.rng)
    wanted = SinkBatch(
        standing.mode,
        standing.query_id,
        standing.batch_id,
        SinkState.INTENT,
        driver,
        -1,
        "",
        0,
        0,
        standing.schema,
    )
    metadata.execute(BeginSinkBatch(sink_id, wanted, source.clock.now_ms()))
    metadata.execute(CommitSinkBatch(sink_id, standing.batch_id, driver, (), is_abandoned=True))
    return standing


def _addresses(image: MetadataImage, stream_ids: Sequence[int], listener: str) -> str:
    """Returns the address of a broker that owns one of the streams, and otherwise of any node, by this listener. Raises
    ListenerMissing."""
    owners = [image.streams[stream_id].owner for stream_id in stream_ids if stream_id in image.streams]
    for node_id in (*dict.fromkeys(owners), *image.nodes):
        address = node_address(image, node_id, listener)
        if address is not None:
            return address
    return ""
