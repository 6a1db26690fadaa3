"""The parts of a running broker, as every handler is given them."""

import msgspec

from siltstone.broker.backlog.verdicts import QuotaVerdicts
from siltstone.broker.groups.groups import Groups
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.producer_ids import ProducerIds
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.topics.creating import TopicCreation
from siltstone.broker.topics.registry import Topics
from siltstone.metadata.service import MetadataService
from siltstone.runtime.blocking import BlockingCalls, InlineCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.stream_engine.engine import StreamEngine


class BrokerParts(msgspec.Struct, frozen=True):
    """``node_id`` and ``node_epoch`` sign metadata commands; the node id is also the broker id that clients see.
    ``record_calls``: where records are read that take long."""

    settings: BrokerSettings
    metadata: MetadataService
    engine: StreamEngine
    topics: Topics
    creation: TopicCreation
    partitions: Partitions
    groups: Groups
    producer_ids: ProducerIds
    clock: Clock
    rng: Random
    cluster_id: str
    node_id: int
    node_epoch: int
    record_calls: BlockingCalls = msgspec.field(default_factory=InlineCalls)
    quota_verdicts: QuotaVerdicts = msgspec.field(default_factory=QuotaVerdicts)
