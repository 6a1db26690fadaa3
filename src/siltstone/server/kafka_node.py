"""Runs a Kafka node: admin listeners, stream engine, broker and listeners, opened in that order and closed in the
opposite order."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path

import msgspec

from siltstone.broker.backlog.backlog import BacklogStatistics
from siltstone.broker.broker import KafkaBroker
from siltstone.broker.groups.groups import GroupsStatistics
from siltstone.broker.partitions.damage import DamageStatistics
from siltstone.broker.partitions.partitions import PartitionsStatistics
from siltstone.broker.request import Listener
from siltstone.broker.security.authenticator import LoginStatistics
from siltstone.broker.security.bearer.tokens import BearerTokens, tokens_of
from siltstone.broker.security.node_logins import is_live
from siltstone.broker.starting import start_broker
from siltstone.metadata.commands import DrainNode
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.node_address import node_address, put_node_address
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.service import MetadataService
from siltstone.model.errors import Unavailable
from siltstone.model.serving_limits import PASSWORD_CHECK_THREADS
from siltstone.object_store.faults import BucketFaults
from siltstone.runtime.blocking import BlockingCalls, ThreadedCalls
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.files import SystemDisks
from siltstone.runtime.randomness import Random, system_randomness
from siltstone.runtime.tasks import ends_in_time
from siltstone.server.admin.addresses import admin_wants_login
from siltstone.server.admin.listening import AdminListeners, open_admin_listeners
from siltstone.server.admin.users import BrokerUsers
from siltstone.server.components import Node, open_node
from siltstone.server.network.addresses import ListenerAddress, bracketed
from siltstone.server.network.certificates import Certificates, watched_certificates
from siltstone.server.network.listener_settings import PLAIN, CertificateWanted
from siltstone.server.network.listeners import BoundListeners, Listeners, bind_listeners
from siltstone.server.network.statistics import NetworkStatistics
from siltstone.server.node_listeners import encrypted_listeners
from siltstone.server.peers.opening import reaching_other_nodes
from siltstone.server.settings.node import NodeSettings
from siltstone.stream_engine.components import EngineState, EngineStatistics
from siltstone.stream_engine.engine import StreamEngine

RECORD_THREADS = 1
"""Threads that read records for the broker. Python runs one thread at a time; more of them would take time from the
event loop."""

ANSWERING_ON_MS = 500
"""How long a node that has handed all partitions over still answers which nodes lead them now, so that the clients
learn it."""

log = logging.getLogger(__name__)


class KafkaNodeStatistics(msgspec.Struct, frozen=True):
    """The statistics of a node's parts; ``engine.state`` is RUNNING as long as the node can store records."""

    engine: EngineStatistics
    partitions: PartitionsStatistics
    groups: GroupsStatistics
    network: NetworkStatistics
    backlog: BacklogStatistics
    damage: DamageStatistics
    logins: LoginStatistics

    def __repr__(self) -> str:
        """Shows the most important numbers; the parts have all of them."""
        engine, network = self.engine, self.network
        reason = f" because {engine.reason}" if engine.reason else ""
        return (
            f"<siltstone statistics: {engine.state.lower()}, {engine.readiness}{reason}; "
            f"{self.partitions.open} partitions open, {network.connections} connections, {network.requests} requests; "
            f"{network.bytes_in} bytes in, {network.bytes_out} bytes out>"
        )


class KafkaNode(msgspec.Struct, frozen=True):
    """A running Kafka node; ``listeners.listeners`` has the addresses at which clients reach it."""

    node: Node
    broker: KafkaBroker
    listeners: Listeners
    certificates: Certificates
    admin: AdminListeners | None = None

    def reload_soon(self) -> None:
        """Reads the files of certificates again, and the keys of issuers before the next token is judged."""
        self.certificates.reload_soon()
        for tokens in self.broker.authenticator.bearers.values():
            tokens.read_keys_again()

    def abandon(self) -> None:
        """Ends all connections and stops storing, as when the process is killed: closing the node afterwards commits
        nothing, and the next start recovers from the write-ahead log."""
        self.listeners.abort()
        self.node.engine.abandon("the node was killed")

    def statistics(self) -> KafkaNodeStatistics:
        parts = self.broker.parts
        return KafkaNodeStatistics(
            self.node.engine.statistics(),
            parts.partitions.statistics(),
            parts.groups.statistics,
            self.listeners.statistics(),
            self.broker.backlog.statistics(),
            parts.partitions.damage.statistics(),
            self.broker.logins(),
        )


class SessionsWatch:
    """Closes the connections of removed users, those of principals whose sessions were ended, and those of nodes at the
    end of their lives.

    The metadata notes such a principal with the version of the entry. Every connection that is open when the node
    learns of it was let in under an earlier image, so all of that name are closed; its next login is judged by the new
    image."""

    def __init__(self, image: MetadataImage, listeners: Listeners) -> None:
        self._image = image
        self._listeners = listeners

    def follow(self, image: MetadataImage) -> None:
        """Closes what this image ends that the image before did not."""
        before, self._image = self._image, image
        if not image.nodes.is_unchanged_from(before.nodes):
            self._listeners.end_sessions_of_nodes(partial(is_live, image))
        if image.ended_sessions.is_unchanged_from(before.ended_sessions):
            return
        changed = image.ended_sessions.changed_from(before.ended_sessions)
        self._listeners.end_sessions({principal for principal, _ in changed})


@asynccontextmanager
async def running_kafka_node(
    settings: NodeSettings,
    addresses: Sequence[ListenerAddress],
    *,
    clock: Clock | None = None,
    rng: Random | None = None,
    faults: BucketFaults | None = None,
    ends_with: Callable[[], Collection[int]] = tuple,
    recover: Collection[Path] = (),
) -> AsyncIterator[KafkaNode]:
    """Runs a node that clients can connect to; ``faults`` of its buckets are for tests. Leaving the context answers the
    requests that were started, commits all data and closes the node's streams. ``ends_with`` is called first then: it
    returns the nodes that end now, this one included. When no other node is live, no node takes the partitions.
    ``recover`` is that of ``open_node``. Raises InvalidListenerSetting and CannotListen, before it opens the store, if
    certificates cannot be used, or a listener's address is in use, and what ``open_node`` raises."""
    clock, rng = clock or SystemClock(), rng or system_randomness()
    async with AsyncExitStack() as opened:
        disk_calls = ThreadedCalls("disks", 1)
        opened.callback(disk_calls.close)
        certificates = await opened.enter_async_context(
            watched_certificates(encrypted_listeners(settings, addresses), clock)
        )
        admin = await opened.enter_async_context(
            open_admin_listeners(settings.admin, clock, settings.admin_listener, certificates)
        )
        bound = await bind_listeners(addresses, settings.named_listeners)
        opened.callback(bound.close)
        reached_at = tuple(
            NodeListener(each.name, each.advertised_host, each.advertised_port) for each in bound.listeners
        )
        node = await opened.enter_async_context(
            open_node(settings, clock=clock, rng=rng, faults=faults, listeners=reached_at, recover=recover)
        )
        others = await opened.enter_async_context(
            reaching_other_nodes(node, bound.listeners, settings, certificates, disk_calls, clock, rng)
        )
        record_calls = ThreadedCalls("records", RECORD_THREADS)
        opened.callback(record_calls.close)
        password_calls = ThreadedCalls("passwords", PASSWORD_CHECK_THREADS)
        opened.callback(password_calls.close)
        has_logins = any(each.protocol.wants_login for each in bound.listeners) or admin_wants_login(
            settings.admin, settings.admin_listener
        )
        bearers = await opened.enter_async_context(_bearers(bound, settings, clock))
        broker = await start_broker(
            node.engine, node.metadata, settings.broker, settings.groups, clock, rng, record_calls,
            node.place.is_lease_held, password_calls if has_logins else None,
            others.peers, others.logins, bearers,
        )  # fmt: skip
        opened.push_async_callback(broker.close)
        node.place.measure(broker.parts.partitions.counts)
        listeners = Listeners(
            bound, broker, settings.network, clock,
            settings_of=settings.named_listeners, certificates=certificates,
            turns_away=lambda: broker.staleness.is_over,
            delay_of_arrival=broker.parts.throttling.arrived,
        )  # fmt: skip
        opened.push_async_callback(listeners.close)
        await listeners.bind()
        await _tell_address(node, others.told)
        opened.callback(node.metadata.add_listener(SessionsWatch(node.metadata.image, listeners).follow))
        await listeners.start()
        limit_ms = settings.network.close_time_limit_ms / 2
        opened.push_async_callback(_leave_others, node, broker, limit_ms, clock, ends_with)
        running = KafkaNode(node, broker, listeners, certificates, admin)
        if admin is not None:
            await opened.enter_async_context(_shown(running, admin, settings, clock, rng, disk_calls))
        yield running


@asynccontextmanager
async def _shown(
    running: KafkaNode,
    admin: AdminListeners,
    settings: NodeSettings,
    clock: Clock,
    rng: Random,
    disk_calls: BlockingCalls,
) -> AsyncIterator[None]:
    """The admin listeners show the broker inside of the ``with``, to its users where they have a login, and then that
    it ends."""
    from siltstone.server.admin.broker_source import ObservedBroker  # noqa: PLC0415  it loads numpy

    admin.endpoints.observed = ObservedBroker(
        running.node, running.broker, running.listeners, settings, clock, SystemDisks(), disk_calls
    )
    admin.endpoints.access.users = BrokerUsers(running.broker, clock, rng)
    async with AsyncExitStack() as opened:
        if settings.admin.console:
            await opened.enter_async_context(_with_console(running, admin, settings, clock, rng))
        yield
        admin.endpoints.is_draining = True


@asynccontextmanager
async def _with_console(
    running: KafkaNode, admin: AdminListeners, settings: NodeSettings, clock: Clock, rng: Random
) -> AsyncIterator[None]:
    """The admin listeners serve the console inside of the ``with``."""
    from siltstone.server.admin.broker_calls import BrokerCalls, answers_of  # noqa: PLC0415
    from siltstone.server.admin.console import NodeConsoleStore, console_of  # noqa: PLC0415  it loads a web framework

    loop = asyncio.get_running_loop()
    calls = BrokerCalls(answers_of(running.broker), running.listeners.listeners[0], loop, clock, rng)
    names = (each.name for each in running.listeners.listeners)
    clients_prove = any(each.protocol.wants_login for each in running.listeners.listeners) or any(
        settings.named_listeners.get(name, PLAIN).tls_client_auth is CertificateWanted.REQUIRED
        for name in names
    )
    node = running.node
    store = NodeConsoleStore(
        settings,
        running.broker.parts,
        node.metadata,
        node.buckets,
        clock,
        rng,
        tail="committed" if clients_prove else "auto",
        calls=calls,
    )
    endpoints = admin.endpoints
    async with console_of(
        store, endpoints.access, endpoints.is_host, rng, clients_prove=clients_prove
    ) as console:
        admin.serve_console(console)
        yield
        admin.serve_console(None)


@asynccontextmanager
async def _bearers(
    bound: BoundListeners, settings: NodeSettings, clock: Clock
) -> AsyncIterator[dict[str, BearerTokens]]:
    """Yields the tokens that each listener takes. Their keys are read in a thread of their own."""
    named = {each.name: settings.named_listeners.get(each.name, PLAIN).bearer for each in bound.listeners}
    with closing(ThreadedCalls("oauth-keys", 1)) as calls:
        made = tokens_of({name: each for name, each in named.items() if each is not None}, clock, calls)
        try:
            yield made
        finally:
            for tokens in made.values():
                await tokens.close()


async def _leave_others(
    node: Node, broker: KafkaBroker, limit_ms: float, clock: Clock, ends_with: Callable[[], Collection[int]]
) -> None:
    """Hands the partitions over to other nodes, unless all live nodes end together: then none could take them.

    The only node of a store hands nothing over, either, but it is recorded as ended: a node with another number that
    is started next need not wait for it."""
    live = {each.node_id for each in node.metadata.image.nodes.values() if each.is_live}
    ending = {*ends_with()}
    if len(ending) > 1 and live <= ending:
        await node.place.rest()
    else:
        await hand_over_everything(node.engine, node.metadata, broker, limit_ms, clock)


async def hand_over_everything(
    engine: StreamEngine, metadata: MetadataService, broker: KafkaBroker, limit_ms: float, clock: Clock
) -> None:
    """Hands the partitions of a node that ends over to the others, while it still answers, so that no client waits for
    the end. Other nodes place the remaining partitions when the streams are closed."""
    if engine.state is not EngineState.RUNNING or not broker.parts.cluster.has_takers:
        return
    if not metadata.image.leader_counts.get(engine.node_id, 0):
        return
    try:
        await metadata.execute(DrainNode(engine.node_id))
        if not await ends_in_time(broker.moves.wait_until_all_left(), clock, limit_ms):
            log.warning(
                "not all partitions were handed over before the end; they are placed when they are closed"
            )
    except (Refusal, Unavailable) as trouble:
        log.warning("partitions are not handed over before the end: %s", trouble)
    await clock.sleep_ms(ANSWERING_ON_MS)


async def _tell_address(node: Node, told: Listener) -> None:
    """Puts the address of a listener into the metadata, for scans, which read records that are in no object yet from
    the broker. The address stays there when the node ends, since streams that were closed cleanly have no such
    records."""
    address = f"{bracketed(told.advertised_host)}:{told.advertised_port}"
    if node_address(node.metadata.image, node.engine.node_id) != address:
        await node.metadata.execute(put_node_address(node.engine.node_id, address))
