"""A Kafka node: stream engine, broker and listeners, opened in that order and closed in the opposite order."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from siltstone.broker.backlog.backlog import BacklogStatistics
from siltstone.broker.broker import KafkaBroker
from siltstone.broker.groups.groups import GroupsStatistics
from siltstone.broker.partitions.damage import DamageStatistics
from siltstone.broker.partitions.partitions import PartitionsStatistics
from siltstone.broker.starting import start_broker
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import Random, system_randomness
from siltstone.server.components import Node, open_node
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.network.listeners import Listeners
from siltstone.server.network.sockets import refuse_taken
from siltstone.server.network.statistics import NetworkStatistics
from siltstone.server.settings.store import StoreSettings
from siltstone.stream_engine.components import EngineStatistics

RECORD_THREADS = 1
"""Threads that read records for the broker. Python runs one thread at a time; more of them would take time from the
event loop."""

log = logging.getLogger(__name__)


class KafkaNodeStatistics(msgspec.Struct, frozen=True):
    """The statistics of a node's parts; ``engine.state`` is RUNNING as long as the node can store records."""

    engine: EngineStatistics
    partitions: PartitionsStatistics
    groups: GroupsStatistics
    network: NetworkStatistics
    backlog: BacklogStatistics
    damage: DamageStatistics


class KafkaNode(msgspec.Struct, frozen=True):
    """A running Kafka node; ``listeners.listeners`` has the addresses at which clients reach it."""

    node: Node
    broker: KafkaBroker
    listeners: Listeners

    def statistics(self) -> KafkaNodeStatistics:
        parts = self.broker.parts
        return KafkaNodeStatistics(
            self.node.engine.statistics(),
            parts.partitions.statistics(),
            parts.groups.statistics,
            self.listeners.statistics(),
            self.broker.backlog.statistics(),
            parts.partitions.damage.statistics(),
        )


@asynccontextmanager
async def running_kafka_node(
    settings: StoreSettings,
    addresses: Sequence[ListenerAddress],
    *,
    clock: Clock | None = None,
    rng: Random | None = None,
) -> AsyncIterator[KafkaNode]:
    """Runs a node that clients can connect to. Leaving the context answers the requests that were begun, commits all
    data and closes the node's streams. Raises CannotListen, before it opens the store, if a listener's address is in
    use, and what ``open_node`` raises."""
    await refuse_taken(addresses)
    clock, rng = clock or SystemClock(), rng or system_randomness()
    async with AsyncExitStack() as opened:
        node = await opened.enter_async_context(open_node(settings, clock=clock, rng=rng))
        record_calls = ThreadedCalls("records", RECORD_THREADS)
        opened.callback(record_calls.close)
        broker = await start_broker(
            node.engine, node.metadata, settings.broker, settings.groups, clock, rng, record_calls
        )
        opened.push_async_callback(broker.close)
        listeners = Listeners(addresses, broker, settings.network, clock)
        opened.push_async_callback(listeners.close)
        await listeners.start()
        yield KafkaNode(node, broker, listeners)
