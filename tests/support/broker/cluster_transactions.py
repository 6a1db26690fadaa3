"""Transactional producers, and readers, of a cluster: each request goes to the node that leads or coordinates what it
names, as the newest image says."""

import asyncio
from typing import Any

from siltstone.broker.groups.groups import partition_of_group
from siltstone.broker.topics.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.metadata.commands import MovePartitions
from siltstone.metadata.image import MetadataImage
from siltstone.runtime.clock import ManualClock
from support.broker.broker_cluster import BrokerCluster
from support.broker.broker_world import Client


class RoutedCluster:
    """A cluster that looks like one broker to a ``TransactionClient``."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self.cluster = cluster
        self.clients: dict[int, Client] = {}

    @property
    def clock(self) -> ManualClock:
        return self.cluster.clock

    @property
    def image(self) -> MetadataImage:
        living = [node for node in self.cluster.nodes if not node.is_dead]
        return max((node.node.metadata.image for node in living), key=lambda image: image.version)

    def client(self) -> "RoutedCluster":
        return RoutedCluster(self.cluster)

    async def ask(self, request: Any, version: int | None = None) -> Any:
        node_id = self._node_of(request)
        if self.cluster.nodes[node_id].is_dead:
            await asyncio.get_running_loop().create_future()  # no answer comes
        if node_id not in self.clients:
            self.clients[node_id] = self.cluster.nodes[node_id].client()
        return await self.clients[node_id].ask(request, version)

    def _node_of(self, request: Any) -> int:
        match type(request).api_key:
            case ApiKey.PRODUCE:
                (topic,) = request.topics
                return self._leader_of(topic.name, topic.topic_id, topic.partitions[0].index)
            case ApiKey.FETCH:
                (topic,) = request.topics
                return self._leader_of(topic.name, topic.topic_id, topic.partitions[0].index)
            case ApiKey.TXN_OFFSET_COMMIT | ApiKey.OFFSET_COMMIT:
                return self.leader(OFFSETS_TOPIC, request.group_id)
            case ApiKey.OFFSET_FETCH:
                return self.leader(OFFSETS_TOPIC, request.groups[0].group_id)
            case ApiKey.ADD_PARTITIONS_TO_TXN:
                return self.leader(TRANSACTIONS_TOPIC, request.v3_and_below_transactional_id)
            case _:
                return self.leader(TRANSACTIONS_TOPIC, request.transactional_id)

    def _leader_of(self, name: str, topic_id: bytes, index: int) -> int:
        image = self.image
        return image.topics[image.topic_ids.get(name) or topic_id.hex()].partitions[index].leader

    def leader(self, topic: str, key: str) -> int:
        image = self.image
        return image.topics[image.topic_ids[topic]].partitions[self.partition(topic, key)].leader

    def partition(self, topic: str, key: str) -> int:
        image = self.image
        return partition_of_group(key, len(image.topics[image.topic_ids[topic]].partitions))

    def name_led_by(self, topic: str, node_id: int) -> str:
        """Returns a transactional id, or the name of a group, that the node coordinates."""
        names = (f"n{number}" for number in range(1_000))
        return next(name for name in names if self.leader(topic, name) == node_id)

    async def move(self, topic: str, key: str, target: int) -> None:
        """Moves the coordinator of a group or a transactional id, and waits until it is there."""
        topic_id, index = self.image.topic_ids[topic], self.partition(topic, key)
        command = MovePartitions(((topic_id, index, target),))
        await self.cluster.nodes[target].node.metadata.execute(command)
        await self.cluster.known()
        await self.cluster.until(lambda: self.leader(topic, key) == target)


async def routed(cluster: BrokerCluster) -> RoutedCluster:
    """Makes both topics of coordinators, whose partitions the nodes share."""
    parts = cluster.nodes[0].parts
    await parts.transactions.prepare_to_find()
    await parts.groups.prepare_to_find()
    await cluster.known()
    for node in cluster.nodes:
        await node.parts.transactions.prepare_to_find()
        await node.parts.groups.prepare_to_find()
    await cluster.passes(300)
    return RoutedCluster(cluster)
