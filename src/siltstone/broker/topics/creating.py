"""Creates topics: on request, automatically when a topic is first used, and the topics of the broker itself.

One metadata command creates a topic, so a topic is never visible in part. The command checks names, collisions and
topics that exist already; this module checks numbers, configurations, and replicas that are assigned by hand (for
CreatePartitions, too), one for each partition.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from weakref import WeakValueDictionary

import msgspec

from siltstone.broker.settings import BrokerSettings
from siltstone.broker.topics.names import (
    INTERNAL_TOPICS,
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    InvalidPartitionCount,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    why_illegal,
)
from siltstone.broker.topics.registry import Topic, Topics
from siltstone.foundation.quantity_words import counted
from siltstone.metadata.commands import CreateTopic
from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.decisions.table import decide
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.refusals import InvalidTopicName, TopicAlreadyExists
from siltstone.metadata.service import MetadataService
from siltstone.model.audit import AUDIT_TOPIC
from siltstone.model.limits import AUDIT_RETENTION_BYTES, AUDIT_RETENTION_MS, AUDIT_TOPIC_PARTITIONS, MIB
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random, random_token
from siltstone.topic_configs.table import parse_topic_configs, written_configs

log = logging.getLogger(__name__)

BROKER_DEFAULT = -1
"""Means, in a request, the broker's default number of partitions, or of replicas."""

OWN_TOPIC_CONFIGS = {
    OFFSETS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(100 * MIB),
    },
    TRANSACTIONS_TOPIC: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(100 * MIB),
    },
    AUDIT_TOPIC: {
        "retention.ms": str(AUDIT_RETENTION_MS),
        "retention.bytes": str(AUDIT_RETENTION_BYTES // AUDIT_TOPIC_PARTITIONS),
    },
}
"""The configurations of the topics that the broker itself writes; of the first two the same as in Kafka."""


class NewTopic(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    partition_count: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = {}
    leaders: tuple[int, ...] = ()


class TopicCreation:
    def __init__(
        self,
        metadata: MetadataService,
        topics: Topics,
        settings: BrokerSettings,
        clock: Clock,
        rng: Random,
        *,
        node_id: int,
        node_epoch: int,
    ) -> None:
        """``node_id`` and ``node_epoch`` fence the commands."""
        self._metadata = metadata
        self._topics = topics
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._node_id = node_id
        self._node_epoch = node_epoch
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create(self, wanted: NewTopic) -> Topic:
        """Raises InvalidTopicName, TopicAlreadyExists, InvalidTopicConfig, InvalidPartitionCount,
        InvalidReplicationFactor, TooManyPartitions, StoreFull, Unavailable."""
        made = await self._metadata.execute(self._command(wanted))
        log.info("topic %s was created: %s", made.name, counted(len(made.partitions), "partition"))
        return self._topics.by_id(bytes.fromhex(made.topic_id)) or self._topics.of(made)

    def validate(self, wanted: NewTopic) -> TopicMetadata:
        """Returns the topic that ``create`` would create now. It writes nothing, and raises what ``create`` raises."""
        decision = decide(self._metadata.image, self._command(wanted), self._clock.now_ms())
        if isinstance(decision, Decision):
            return decision.result
        raise decision

    @property
    def is_automatic(self) -> bool:
        """Whether a topic is created when a client first asks for it."""
        return self._settings.auto_create_topics_enable

    async def create_if_missing(self, name: str) -> Topic:
        """Returns the topic, which is created with the broker's defaults if it does not exist. Concurrent callers share
        one creation. Raises InvalidTopicName, Unavailable."""
        wanted = self._own_topic(name) if name in OWN_TOPIC_CONFIGS else NewTopic(name=name)
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            return self._topics.by_name(name) or await self._create_unless_there(wanted)

    async def offsets_topic(self) -> Topic:
        """Returns ``__consumer_offsets``, which is created if it does not exist, whether topics are created
        automatically or not."""
        return await self.create_if_missing(OFFSETS_TOPIC)

    async def transactions_topic(self) -> Topic:
        """Does the same for ``__transaction_state``."""
        return await self.create_if_missing(TRANSACTIONS_TOPIC)

    async def audit_topic(self) -> Topic:
        """Does the same for ``__siltstone_audit``."""
        return await self.create_if_missing(AUDIT_TOPIC)

    async def _create_unless_there(self, wanted: NewTopic) -> Topic:
        try:
            return await self.create(wanted)
        except TopicAlreadyExists:  # another process created it in the meantime
            topic = self._topics.by_name(wanted.name)
            if topic is None:
                raise
            return topic

    def _own_topic(self, name: str) -> NewTopic:
        settings = self._settings
        counts = {
            OFFSETS_TOPIC: settings.offsets_topic_num_partitions,
            TRANSACTIONS_TOPIC: settings.transaction_state_log_num_partitions,
            AUDIT_TOPIC: AUDIT_TOPIC_PARTITIONS,
        }
        return NewTopic(name=name, partition_count=counts[name], configs=OWN_TOPIC_CONFIGS[name])

    def _command(self, wanted: NewTopic) -> CreateTopic:
        """Checks in Kafka's order, so that a request with several faults gets the same error as in Kafka."""
        if why := why_illegal(wanted.name):
            raise InvalidTopicName(why)
        if wanted.name in self._metadata.image.topic_ids:
            raise TopicAlreadyExists(f"Topic '{wanted.name}' already exists.")
        configs = written_configs(wanted.configs)
        parse_topic_configs(configs, self._topics.defaults)
        return CreateTopic(
            node_id=self._node_id,
            node_epoch=self._node_epoch,
            name=wanted.name,
            topic_id=self._new_topic_id(),
            replication_factor=self._replication_factor(wanted.replication_factor),
            partition_count=self._partition_count(wanted.partition_count),
            configs=configs,
            is_internal=wanted.name in INTERNAL_TOPICS,
            leaders=wanted.leaders,
            partitions_max=self._settings.partitions_max,
        )

    def _partition_count(self, asked: int) -> int:
        if asked == BROKER_DEFAULT:
            return self._settings.num_partitions
        if asked < 1:
            raise InvalidPartitionCount("Number of partitions was set to an invalid non-positive value.")
        return asked

    def _replication_factor(self, asked: int) -> int:
        if asked == BROKER_DEFAULT:
            return self._settings.default_replication_factor
        if asked < 1:
            raise InvalidReplicationFactor(
                "Replication factor must be larger than 0, or -1 to use the default value."
            )
        return asked

    def _new_topic_id(self) -> str:
        """Returns a random id that is not 0 or 1, which Kafka reserves, and does not begin with a dash in base64, since
        command lines would take the dash for an option."""
        while True:
            topic_id = random_token(self._rng)
            number = int(topic_id, 16)
            if number > 1 and number >> 122 != 0b111110:
                return topic_id


def only_replica(node_ids: Collection[int], broker_ids: Sequence[int]) -> int:
    """Returns the replica that is assigned to one partition. Raises InvalidReplicaAssignment unless it is exactly one,
    of the live nodes ``node_ids``."""
    if not broker_ids:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    for broker_id in broker_ids:
        if broker_id not in node_ids:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
    if len(set(broker_ids)) < len(broker_ids):
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes the broker {broker_ids[0]} more than once."
        )
    if len(broker_ids) > 1:
        raise InvalidReplicaAssignment(
            "a partition has one replica, because the bucket keeps the copies: assign exactly one broker"
        )
    return broker_ids[0]
