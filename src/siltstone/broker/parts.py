"""The parts of a running broker, which every handler receives, and the ids of idempotent producers.

A store never gives the same producer id twice. ``ProducerIds`` takes ids from the metadata in blocks, so that only one
id in a thousand costs a metadata command; ids of a block that are left when the broker ends stay unused.
"""

import asyncio
from collections import deque

import msgspec

from siltstone.broker.backlog.verdicts import QuotaVerdicts
from siltstone.broker.cluster_view import ClusterView
from siltstone.broker.groups.groups import Groups
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.peers import Peers, UnknownPeers
from siltstone.broker.quotas.throttling import Throttling
from siltstone.broker.request_measures import RequestMeasures
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.shares.shares import Shares
from siltstone.broker.topics.creating import TopicCreation
from siltstone.broker.topics.registry import Topics
from siltstone.broker.transaction_topic import PartitionMarkers
from siltstone.broker.transactions.transactions import Transactions
from siltstone.metadata.commands import TakeNumbers
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.service import MetadataService
from siltstone.runtime.blocking import BlockingCalls, InlineCalls
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import Random
from siltstone.stream_engine.engine import StreamEngine

SEQUENCE = "producer-ids"
BLOCK_SIZE = 1_000
"""The size of a block in Kafka, too."""


class ProducerIds:
    def __init__(self, metadata: MetadataService) -> None:
        self._metadata = metadata
        self._left = iter(range(0))
        self._of_remainder: dict[tuple[int, int], deque[int]] = {}
        self._taking = asyncio.Lock()

    async def next(self) -> int:
        """Returns a new producer id. Callers that need a new block at the same time share one. Raises Unavailable."""
        async with self._taking:
            producer_id = next(self._left, None)
            if producer_id is None:
                first = await self._metadata.execute(TakeNumbers(SEQUENCE, BLOCK_SIZE))
                self._left = iter(range(first + 1, first + BLOCK_SIZE))
                return first
            return producer_id

    async def next_of(self, remainder: int, modulus: int) -> int:
        """Returns a new producer id that has this remainder. The other ids of its block stay unused: there are more
        than will ever be needed. Raises Unavailable."""
        kept = self._of_remainder.setdefault((remainder, modulus), deque())
        async with self._taking:
            if not kept:
                size = max(BLOCK_SIZE, modulus)
                first = await self._metadata.execute(TakeNumbers(SEQUENCE, size))
                kept.extend(each for each in range(first, first + size) if each % modulus == remainder)
            return kept.popleft()


class BrokerParts(msgspec.Struct, frozen=True):
    """``node_id`` and ``node_epoch`` sign metadata commands; the node id is also the broker id that clients see.
    ``record_calls`` runs calls that read records for so long that the event loop should not."""

    settings: BrokerSettings
    metadata: MetadataService
    engine: StreamEngine
    topics: Topics
    creation: TopicCreation
    partitions: Partitions
    groups: Groups
    transactions: Transactions
    markers: PartitionMarkers
    producer_ids: ProducerIds
    clock: Clock
    rng: Random
    cluster_id: str
    node_id: int
    node_epoch: int
    cluster: ClusterView
    shares: Shares
    record_calls: BlockingCalls = msgspec.field(default_factory=InlineCalls)
    quota_verdicts: QuotaVerdicts = msgspec.field(default_factory=QuotaVerdicts)
    measures: RequestMeasures = msgspec.field(default_factory=RequestMeasures)
    throttling: Throttling = msgspec.field(default_factory=lambda: Throttling(MetadataImage, SystemClock()))
    peers: Peers = msgspec.field(default_factory=UnknownPeers)
