"""Reads the metrics of a running broker from the statistics of its parts, and says whether the broker is ready.

A scrape changes nothing, waits for nothing but a disk, and loads no group.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from siltstone.broker.broker import KafkaBroker
from siltstone.broker.deliveries.steps import AcknowledgeType
from siltstone.broker.partitions.partitions import Traffic
from siltstone.broker.quotas.throttling import ThrottleStatistics
from siltstone.broker.request_measures import error_name
from siltstone.broker.security.authenticator import LoginStatistics
from siltstone.broker.shares.shares import ShareStatistics
from siltstone.carrying.pipeline.set_aside import last_runs
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.metadata.entities import NodeState
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import SECOND_MS
from siltstone.model.serving_limits import TOPICS_SHOWN_MAX
from siltstone.object_store.bandwidth.turns import Direction, Grade
from siltstone.offline.kind_rows import KIND_NAMES
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.files import Disks
from siltstone.server.admin.endpoints import ClientsReport
from siltstone.server.admin.exposition import label_text
from siltstone.server.admin.group_lags import GroupLags
from siltstone.server.admin.largest_topics import NOTHING, Bytes, LargestTopics
from siltstone.server.admin.object_source import OTHERS, ObjectSource
from siltstone.server.admin.scrape import Collected, MetricSource
from siltstone.server.admin.store_source import DiskSource, StoreSource
from siltstone.server.components import Node
from siltstone.server.network.certificates import CertificateStatistics
from siltstone.server.network.handshakes import HandshakeStatistics
from siltstone.server.network.listeners import Listeners
from siltstone.server.network.statistics import NetworkStatistics
from siltstone.server.settings.node import NodeSettings
from siltstone.stream_engine.components import EngineState, EngineStatistics, Readiness
from siltstone.stream_engine.reading.committed_reader import ReadStatistics

GROUPS_INTERVAL_MS = 10 * SECOND_MS
PARTITIONS_PER_TURN = 200
ROWS_PER_TURN = 50


class ObservedBroker:
    """A broker as the admin listeners see it."""

    def __init__(
        self,
        node: Node,
        broker: KafkaBroker,
        listeners: Listeners,
        settings: NodeSettings,
        clock: Clock,
        disks: Disks,
        calls: BlockingCalls,
    ) -> None:
        self._node = node
        self._broker = broker
        self._partitions = broker.parts.partitions
        self._listeners = listeners
        self.sources: Sequence[MetricSource] = (
            NetworkSource(broker, listeners),
            TopicSource(broker),
            EngineSource(node, broker, settings),
            StoreSource((node.buckets,), settings.admin.prices),
            ObjectSource(lambda: node.metadata.image, clock),
            ClusterSource(
                lambda: node.metadata.image,
                lambda: clock.now_ms() + node.metadata.clock_offset_ms,
                lambda: broker.parts.peers.unreachable(),  # noqa: PLW0108  made after the sources
            ),
            DiskSource(_folders_of(settings), disks, calls, clock),
            GroupSource(broker, clock),
        )

    @property
    def state(self) -> str:
        state = self._node.engine.state
        return {EngineState.RUNNING: "running", EngineState.CLOSING: "draining"}.get(
            state, state.name.lower()
        )

    @property
    def reasons(self) -> list[str]:
        """Says why the broker is not ready; empty if it is."""
        readiness, reason = self._node.engine.readiness
        found = [reason] if readiness in (Readiness.STOPPED, Readiness.FULL) else []
        if trouble := self._partitions.openings.trouble:
            found.append(trouble)
        if self._broker.staleness.is_over:
            found.append(self._broker.staleness.reason)
        if not self._listeners.are_open:
            found.append("the listeners for Kafka clients are not open")
        return found

    def clients(self) -> ClientsReport:
        connections = self._listeners.statistics().connections
        return ClientsReport(self._node.engine.node_id, connections, self._listeners.clients())


class ClusterSource:
    """Reads what a broker knows of other processes from the metadata: the nodes of the cluster, and when maintenance
    last ran, wherever that was. So maintenance that nobody started, or that died, is seen.

    ``now_ms`` is the store's time. A kind that has never run counts from the first scrape."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        now_ms: Callable[[], int],
        unreachable: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self._image = image
        self._now_ms = now_ms
        self._unreachable = unreachable
        self._first_ms: int | None = None

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        image, now_ms = self._image(), self._now_ms()
        if self._first_ms is None:
            self._first_ms = now_ms
        states = [node.state for node in image.nodes.values()]
        for state in NodeState:
            collected.add("nodes", states.count(state), state.value)
        collected.add("nodes_unreachable", len(self._unreachable()))
        runs = last_runs(image)
        for kind in KIND_NAMES:
            ended_ms = runs[kind].ended_ms if kind in runs else self._first_ms
            collected.add("last_maintenance_age_seconds", max(0, now_ms - ended_ms) / 1000, kind)
        yield


class NetworkSource:
    def __init__(self, broker: KafkaBroker, listeners: Listeners) -> None:
        self._broker = broker
        self._listeners = listeners

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        requests = self._broker.parts.measures.statistics()
        for api_key, begun in requests.begun.items():
            collected.add("requests", begun, ApiKey(api_key).title)
            collected.add("request_seconds", requests.seconds[api_key], ApiKey(api_key).title)
            yield
        for (api_key, code), count in requests.errors.items():
            collected.add("request_errors", count, ApiKey(api_key).title, error_name(code))
        for (api_key, is_refused), count in requests.denied.items():
            outcome = "refused" if is_refused else "passed"
            collected.add("authorization_denied", count, ApiKey(api_key).title, outcome)
        for stage, seconds in requests.stages.items():
            collected.add("request_stage_seconds", seconds, ApiKey(stage.api_key).title, stage.title)
        yield
        listeners = self._listeners
        _add_network(collected, listeners.statistics(), [each.name for each in listeners.listeners])
        if listeners.certificates:
            _add_tls(collected, listeners.statistics().handshakes, listeners.certificates.statistics())
        _add_logins(collected, self._broker.logins())
        _add_throttles(collected, self._broker.parts.throttling.statistics())
        if self._broker.trail.is_on:
            audit = self._broker.trail.gathering.statistics()
            collected.add("audit_records", audit.written)
            collected.add("audit_dropped", audit.dropped)
        yield


def _add_network(collected: Collected, network: NetworkStatistics, listeners: Sequence[str]) -> None:
    collected.add("request_bytes", network.bytes_in)
    collected.add("response_bytes", network.bytes_out)
    for listener in listeners:
        collected.add("connections", network.of_listener.get(listener, 0), listener)
    collected.add("connections_accepted", network.accepted)
    collected.add("requests_in_flight", network.requests_in_flight)
    for reason, count in network.closed.items():
        collected.add("connections_closed", count, reason.value)
    for (listener, reason), count in network.refused.items():
        collected.add("peer_refusals", count, listener, reason.value)


def _add_throttles(collected: Collected, throttles: ThrottleStatistics) -> None:
    for key, times in throttles.throttled.items():
        collected.add("throttled", times, key.value)
    for key, ms in throttles.throttled_ms.items():
        collected.add("throttled_seconds", ms / SECOND_MS, key.value)


def _add_logins(collected: Collected, logins: LoginStatistics) -> None:
    for outcome, counts in (("succeeded", logins.succeeded), ("failed", logins.failed)):
        for mechanism, count in counts.items():
            if count:
                collected.add("logins", count, mechanism.value, outcome)
    collected.add("sessions_expired", logins.expired)


def _add_tls(collected: Collected, handshakes: HandshakeStatistics, files: CertificateStatistics) -> None:
    collected.add("tls_handshake_seconds", handshakes.seconds)
    collected.add("tls_handshakes_in_flight", handshakes.under_way)
    for failure, count in handshakes.failures.items():
        collected.add("tls_handshake_failures", count, failure.value)
    for listener, expires_ms in files.expires_ms.items():
        collected.add("tls_certificate_expiry_seconds", expires_ms / 1000, listener)
    collected.add("tls_reloads", files.reloads)
    collected.add("tls_reload_failures", files.reload_failures)


class TopicSource:
    def __init__(self, broker: KafkaBroker) -> None:
        self._parts = broker.parts
        self._largest = LargestTopics(TOPICS_SHOWN_MAX)

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        partitions, deleted = self._parts.partitions.all_opened(), self._parts.partitions.traffic_of_deleted
        names = self._parts.metadata.image.topics
        totals: dict[str, Bytes] = {}
        for number, ((topic_id, _), partition) in enumerate(partitions):
            if topic_id in names:
                in_bytes, out_bytes = totals.get(topic_id, NOTHING)
                totals[topic_id] = in_bytes + partition.bytes_in, out_bytes + partition.bytes_out
            else:  # another process deleted it a moment ago
                deleted += Traffic(partition.bytes_in, partition.bytes_out)
            if number % PARTITIONS_PER_TURN == 0:
                yield
        for _ in self._largest.look(totals, (deleted.bytes_in, deleted.bytes_out)):
            yield
        shares = self._largest.shares
        rows = ((names[topic_id].name, shown) for topic_id, shown in shares.shown.items())
        for number, (name, (in_bytes, out_bytes)) in enumerate(rows):
            collected.add("topic_in_bytes", in_bytes, name)
            collected.add("topic_out_bytes", out_bytes, name)
            if number % ROWS_PER_TURN == 0:
                yield
        collected.add("topic_in_bytes", shares.others[0], OTHERS)
        collected.add("topic_out_bytes", shares.others[1], OTHERS)


class EngineSource:
    def __init__(self, node: Node, broker: KafkaBroker, settings: NodeSettings) -> None:
        self._node = node
        self._broker = broker
        self._wal_capacity_bytes = settings.engine.wal.capacity_bytes

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        collected.add("wal_capacity_bytes", self._wal_capacity_bytes)
        opened = self._broker.parts.partitions.all_opened()
        collected.add("partitions_open", len(opened))
        most = max((partition.transactions.aborted_bytes for _, partition in opened), default=0)
        collected.add("aborted_transactions_bytes_max", most)
        collected.add("damaged_reads", self._broker.parts.partitions.damage.statistics().reads_refused)
        collected.add("hidden_markers", self._broker.hidden_markers.aborted)
        _add_engine(
            collected, self._node.engine.statistics(), self._broker.parts.partitions.openings.appends_waiting
        )
        yield
        reads = self._node.reader.statistics()
        _add_caches(collected, reads)
        catch_up = reads.catch_up.of(Direction.IN, Grade.CATCH_UP_READ)
        collected.add("catch_up_limit_bytes", reads.catch_up.bytes_per_second[Direction.IN])
        collected.add("catch_up_held_seconds", catch_up.held_seconds)
        metadata = self._node.metadata.statistics()
        collected.add("metadata_version", metadata.version)
        collected.add("metadata_read_age_seconds", round(metadata.read_age_seconds, 3))
        collected.add("metadata_append_seconds", metadata.append_seconds)
        collected.add("metadata_commands_waiting", metadata.commands_waiting)
        collected.add("metadata_commands", metadata.commands_executed)
        yield


def _add_engine(collected: Collected, engine: EngineStatistics, waiting_for_openings: int) -> None:
    collected.add("append_seconds", engine.append_seconds)
    collected.add("appends_waiting", engine.appends_waiting + waiting_for_openings)
    collected.add("appends_waiting_bytes", engine.bytes_waiting)
    collected.add("wal_write_seconds", engine.wal.write_seconds)
    collected.add("wal_bytes", engine.wal.bytes_untrimmed)
    collected.add("wal_written_bytes", engine.wal.bytes_written)
    collected.add("wal_syncs", engine.wal.syncs)
    collected.add("tail_cache_bytes", engine.tail.bytes_used)
    collected.add("tail_cache_capacity_bytes", engine.tail.bytes_max)
    collected.add("uncommitted_bytes", engine.tail.bytes_uncommitted)
    collected.add("oldest_uncommitted_seconds", engine.oldest_uncommitted_seconds)
    collected.add("upload_seconds", engine.upload.upload_seconds)
    collected.add("upload_bytes", engine.upload.bytes_uploaded)
    collected.add("uploads_committed", engine.upload.objects_committed)
    collected.add("upload_outage", int(engine.upload.outage is not None))


def _add_caches(collected: Collected, reads: ReadStatistics) -> None:
    for cache, hits, misses, used in (
        ("block", reads.blocks.hits, reads.blocks.misses, reads.blocks.bytes_used),
        ("index", reads.indexes.hits, reads.indexes.loads, reads.indexes.bytes_used),
    ):
        collected.add("cache_hits", hits, cache)
        collected.add("cache_misses", misses, cache)
        collected.add("cache_bytes", used, cache)
    collected.add("cache_evictions", reads.blocks.evictions, "block")
    collected.add("read_ahead_wasted_bytes", reads.blocks.read_ahead_bytes_wasted)


class GroupSource:
    """Looks at the groups and transactions at most every ten seconds."""

    def __init__(self, broker: KafkaBroker, clock: Clock) -> None:
        self._parts = broker.parts
        self._open_since_ms: list[int] = []
        self._lags = GroupLags(broker.parts)
        self._clock = clock
        self._looked_ms: float | None = None

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        now_ms = self._clock.monotonic_ms()
        if self._looked_ms is None or now_ms - self._looked_ms >= GROUPS_INTERVAL_MS:
            async for _ in self._lags.look():
                yield
            self._looked_ms = now_ms
            self._open_since_ms = self._parts.transactions.open_since_ms()
        _add_shares(collected, self._parts.shares.statistics())
        collected.add("transactions_open", len(self._open_since_ms))
        time_ms = self._clock.now_ms()
        age_ms = max(time_ms - min(self._open_since_ms, default=time_ms), 0)
        collected.add("transaction_open_seconds", age_ms / SECOND_MS)
        for state, count in self._lags.states.items():
            collected.add("groups", count, state)
        collected.add("group_series_omitted", self._lags.omitted)
        for number, each in enumerate(self._lags.groups):
            group = label_text(each.group)
            if each.state:
                collected.add("group_members", each.members, group)
                collected.add("group_state", 1, group, each.state)
            for lag in each.topics:
                collected.add("group_lag_records", lag.records, group, lag.topic)
                collected.add("group_lag_seconds", lag.seconds, group, lag.topic)
                collected.add("group_lag_bytes", lag.size_bytes, group, lag.topic)
                if (unread := lag.partitions_without_commit) is not None:
                    collected.add("group_partitions_without_commit", unread, group, lag.topic)
            if number % ROWS_PER_TURN == 0:
                yield


def _add_shares(collected: Collected, shares: ShareStatistics) -> None:
    collected.add("share_sessions", shares.sessions)
    collected.add("share_acquired_records", shares.acquired)
    collected.add("share_delivered_records", shares.delivered)
    for kind, count in shares.acknowledged.items():
        collected.add("share_acknowledged_records", count, kind.name.lower())
    rejected = shares.acknowledged.get(AcknowledgeType.REJECT, 0)
    for reason, count in (("rejected", rejected), ("deliveries", shares.given_up)):
        if count:
            collected.add("share_archived_records", count, reason)


def _folders_of(settings: NodeSettings) -> dict[str, Path]:
    """Returns the folders whose disks are measured, by the names that their series have."""
    urls = {"metadata": settings.metadata, **{f"bucket-{n}": url for n, url in settings.buckets.items()}}
    folders = {"log": settings.wal_folder}
    return folders | dict(_local_folders(urls))


def _local_folders(urls: dict[str, str]) -> Iterator[tuple[str, Path]]:
    for name, url in urls.items():
        parts = urlsplit(url)
        path = Path(unquote(parts.path))
        if parts.scheme in ("file", "sqlite"):
            yield name, path.parent if parts.scheme == "sqlite" else path
