"""Makes a broker that answers requests from an engine that runs: cluster id, topics, partitions, groups, backlogs."""

import base64
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

from siltstone.broker.backlog.backlog import BacklogWatch
from siltstone.broker.backlog.positions import Registrations
from siltstone.broker.backlog.progress_mirror import ProgressMirror
from siltstone.broker.backlog.verdicts import QuotaVerdicts
from siltstone.broker.broker import KafkaBroker
from siltstone.broker.cluster_view import ClusterView
from siltstone.broker.features import promise_features, tell_program
from siltstone.broker.group_configs import key_of_group, settings_of_group
from siltstone.broker.groups.groups import Groups
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.offsets_topic import OffsetsTopicLeaders, OffsetsTopicLogs
from siltstone.broker.partitions.handing_over import HandingOver
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.parts import BrokerParts, ProducerIds
from siltstone.broker.peers import Peers, UnknownPeers
from siltstone.broker.quotas.throttling import Throttling
from siltstone.broker.security.audit.trail import AuditTrail
from siltstone.broker.security.authenticator import Authenticator
from siltstone.broker.security.authorizer import Authorizer, refuse_weaker_mode
from siltstone.broker.security.bearer.tokens import BearerTokens
from siltstone.broker.security.made_up import SALT_SECRET_BITS, SALT_SECRET_KEY, MadeUpCredentials
from siltstone.broker.security.node_logins import NodeLogins
from siltstone.broker.security.staleness import Staleness
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.shares.shares import Shares
from siltstone.broker.topics.creating import TopicCreation
from siltstone.broker.topics.names import TRANSACTIONS_TOPIC
from siltstone.broker.topics.registry import Topics
from siltstone.broker.transaction_topic import PartitionMarkers, TransactionTopicLogs
from siltstone.broker.transactions.transactions import Transactions
from siltstone.metadata.commands import PutKey
from siltstone.metadata.node_address import CLUSTER_ID_KEY
from siltstone.metadata.service import MetadataService
from siltstone.model.acls import AuthorizationMode
from siltstone.offline.topic_streams import put_topic_defaults
from siltstone.runtime.blocking import BlockingCalls, InlineCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.stream_engine.engine import StreamEngine

log = logging.getLogger(__name__)


class LogClock:
    """The clock of the metadata log, as this node knows it, for times that nodes compare: a topic's creation, which the
    log's clock tells, with a commit of an offset. By clocks of their own, a node whose clock is behind would take the
    offsets of a new topic for those of an older topic of that name, and forget them."""

    def __init__(self, clock: Clock, metadata: MetadataService) -> None:
        self._metadata = metadata
        self.monotonic_ms = clock.monotonic_ms
        self.sleep_ms = clock.sleep_ms
        self.call_after_ms = clock.call_after_ms
        self.block_ms = clock.block_ms
        self._own_now_ms = clock.now_ms

    def now_ms(self) -> int:
        return self._own_now_ms() + self._metadata.clock_offset_ms


async def start_broker(
    engine: StreamEngine,
    metadata: MetadataService,
    settings: BrokerSettings,
    group_settings: GroupSettings,
    clock: Clock,
    rng: Random,
    record_calls: BlockingCalls | None = None,
    is_lease_held: Callable[[], bool] = lambda: True,
    password_calls: BlockingCalls | None = None,
    peers: Peers | None = None,
    node_logins: NodeLogins | None = None,
    bearers: Mapping[str, BearerTokens] = MappingProxyType({}),
) -> KafkaBroker:
    """Returns a broker that is ready for requests; its groups are loaded in the background. The caller closes it before
    the engine.

    ``record_calls`` runs calls that read batches for long; without it they run on the event loop. ``is_lease_held``:
    see ClusterView. ``password_calls`` checks passwords; None: no listener has a login. ``peers`` and ``node_logins``:
    how it asks other nodes, and how they log in; None: there are none. ``bearers``: listener → the tokens that are a
    login there. Raises AuthorizationTooWeak, FeatureIsFinal.
    """
    await _keep_promises(settings, metadata, engine.node_id, clock)
    topics = Topics(metadata, settings.topic_defaults)
    creation = TopicCreation(
        metadata, topics, settings, clock, rng, node_id=engine.node_id, node_epoch=engine.node_epoch
    )
    staleness = Staleness(
        lambda: metadata.image_age_ms,
        settings.security_stale_ms_max,
        lambda: password_calls is not None or authorizer.mode is AuthorizationMode.ON,
    )
    cluster = ClusterView(metadata, clock, engine.node_id, is_lease_held, lambda: staleness.is_over)
    partitions = Partitions(engine, metadata, topics, settings, clock, cluster)
    registrations = Registrations(topics)
    log_clock = LogClock(clock, metadata)
    mirror = ProgressMirror(metadata, topics, registrations, lambda: groups)
    groups = Groups(
        OffsetsTopicLogs(creation, partitions, log_clock), topics, group_settings, log_clock, rng,
        keeping_topics_of=registrations.names_of, configured=_configured_groups(metadata), progress=mirror,
        leaders=OffsetsTopicLeaders(cluster, topics),
    )  # fmt: skip
    peers, producer_ids = peers or UnknownPeers(), ProducerIds(metadata)
    markers = PartitionMarkers(topics, partitions, groups, cluster, peers)
    transactions = Transactions(
        TransactionTopicLogs(creation.transactions_topic, partitions, log_clock), markers, producer_ids, log_clock,
        OffsetsTopicLeaders(cluster, topics, TRANSACTIONS_TOPIC), peers,
    )  # fmt: skip
    markers.ask_with(transactions.open_anywhere)
    verdicts, record_calls = QuotaVerdicts(), record_calls or InlineCalls()
    shares = Shares(partitions, metadata, group_settings, clock, record_calls)
    parts = BrokerParts(
        settings, metadata, engine, topics, creation, partitions, groups, transactions, markers, producer_ids, clock,
        rng, cluster_id=await _cluster_id(metadata, rng), node_id=engine.node_id, node_epoch=engine.node_epoch,
        cluster=cluster, shares=shares, record_calls=record_calls, quota_verdicts=verdicts, peers=peers,
        throttling=Throttling(lambda: metadata.image, clock, lambda: len(cluster.live_ids)),
    )  # fmt: skip
    backlog = BacklogWatch(
        settings, registrations, mirror, groups, partitions, metadata, verdicts, clock, record_calls
    )
    if (command := put_topic_defaults(metadata.image, topics.defaults)) is not None:
        await metadata.execute(command)
    partitions.start()
    moves = HandingOver(engine, metadata, cluster, topics, partitions, groups, transactions, clock)
    trail = AuditTrail(settings.audit, clock, engine.node_id)
    authenticator = await _authenticator(parts, password_calls, node_logins, bearers, trail)
    authorizer = Authorizer(lambda: metadata.image, clock, parts.measures, settings.authorization, trail)
    broker = KafkaBroker(parts, backlog, moves, authenticator, authorizer, staleness, trail)
    await broker.start()
    return broker


def _configured_groups(metadata: MetadataService) -> Callable[[GroupSettings, str], GroupSettings]:
    return lambda of_node, group_id: settings_of_group(
        of_node, metadata.image.keys.get(key_of_group(group_id))
    )


async def _authenticator(
    parts: BrokerParts,
    password_calls: BlockingCalls | None,
    nodes: NodeLogins | None,
    bearers: Mapping[str, BearerTokens],
    trail: AuditTrail,
) -> Authenticator:
    metadata, rng = parts.metadata, parts.rng
    made_up = MadeUpCredentials(b"" if password_calls is None else await _salt_secret(metadata, rng))
    calls = password_calls or InlineCalls()
    return Authenticator(metadata, parts.clock, rng, parts.measures, made_up, calls, trail, nodes, bearers)


async def _keep_promises(
    settings: BrokerSettings, metadata: MetadataService, node_id: int, clock: Clock
) -> None:
    """What all nodes of the store promise, this one has, or it does not start. It tells what it runs."""
    refuse_weaker_mode(settings.authorization, metadata.image.authorization)
    await promise_features(metadata, node_id)
    await tell_program(metadata, node_id, LogClock(clock, metadata).now_ms())


async def _cluster_id(metadata: MetadataService, rng: Random) -> str:
    """Returns the cluster id, which stays the same for the life of the store: 16 random bytes in URL-safe base64, as in
    Kafka."""
    candidate = base64.urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big")).rstrip(b"=")
    return (await metadata.execute(PutKey(CLUSTER_ID_KEY, candidate))).decode()


async def _salt_secret(metadata: MetadataService, rng: Random) -> bytes:
    """Returns the secret that makes the salts of unknown users; it stays the same for the life of the store."""
    candidate = rng.getrandbits(SALT_SECRET_BITS).to_bytes(SALT_SECRET_BITS // 8, "big")
    return await metadata.execute(PutKey(SALT_SECRET_KEY, candidate))
