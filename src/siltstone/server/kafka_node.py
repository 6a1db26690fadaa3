"""A node with a Kafka broker on it: engine, broker, listeners; opened in that order and closed the other way round."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from siltstone.broker.backlog.backlog import BacklogStatistics
from siltstone.broker.broker import KafkaBroker
from siltstone.broker.groups.groups import GroupsStatistics
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
"""Python runs one at a time anyway; with more of them the event loop would have a smaller share."""

log = logging.getLogger(__name__)


class KafkaNodeStatistics(msgspec.Struct, frozen=True):
    """``engine.state`` is RUNNING as long as records can be stored."""

    engine: EngineStatistics
    partitions: PartitionsStatistics
    groups: GroupsStatistics
    network: NetworkStatistics
    backlog: BacklogStatistics


class KafkaNode(msgspec.Struct, frozen=True):
    """``listeners.listeners``: where it can be reached."""

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
        )


@asynccontextmanager
async def running_kafka_node(
    settings: StoreSettings,
    addresses: Sequence[ListenerAddress],
    *,
    clock: Clock | None = None,
    rng: Random | None = None,
) -> AsyncIterator[KafkaNode]:
    """Ready for clients. Leaving answers what was begun, commits everything and gives the streams back. Raises what
    ``open_node`` raises, and what a listener does when its port is taken: before the store is touched."""
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
