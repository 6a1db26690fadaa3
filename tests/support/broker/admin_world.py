"""The parts of a broker that admin requests touch, on a real engine and real metadata in memory.

Requests go through the codec on their way in and out, so that whatever is answered can be written in the version that
was asked."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from siltstone.broker.apis.altering_configs import handle_alter_configs, handle_incremental_alter_configs
from siltstone.broker.apis.api_versions import handle_api_versions
from siltstone.broker.apis.create_partitions import handle_create_partitions
from siltstone.broker.apis.create_topics import handle_create_topics
from siltstone.broker.apis.delete_topics import handle_delete_topics
from siltstone.broker.apis.describe_cluster import handle_describe_cluster
from siltstone.broker.apis.describe_configs import handle_describe_configs
from siltstone.broker.apis.describe_topic_partitions import handle_describe_topic_partitions
from siltstone.broker.apis.init_producer_id import handle_init_producer_id
from siltstone.broker.apis.metadata import handle_metadata
from siltstone.broker.cluster_view import ClusterView
from siltstone.broker.groups.settings import GroupSettings
from siltstone.broker.partitions.partitions import Partitions
from siltstone.broker.parts import BrokerParts, ProducerIds
from siltstone.broker.request import ConnectionContext, EncodedBody, Listener, RequestContext
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.topics.creating import NewTopic, TopicCreation
from siltstone.broker.topics.registry import Topic, Topics
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.messages.alter_configs import AlterConfigsRequest
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.messages.create_partitions import CreatePartitionsRequest
from siltstone.kafka_protocol.messages.create_topics import CreateTopicsRequest
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest
from siltstone.kafka_protocol.messages.describe_cluster import DescribeClusterRequest
from siltstone.kafka_protocol.messages.describe_configs import DescribeConfigsRequest
from siltstone.kafka_protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from siltstone.kafka_protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.notation import Message
from support.engine.engine_world import SMALL, Node, World

NODE_ID = 7
CLUSTER_ID = "a-cluster"
HANDLERS: dict[type[Message], Callable[..., Awaitable[Any]]] = {
    AlterConfigsRequest: handle_alter_configs,
    ApiVersionsRequest: handle_api_versions,
    CreatePartitionsRequest: handle_create_partitions,
    CreateTopicsRequest: handle_create_topics,
    DeleteTopicsRequest: handle_delete_topics,
    DescribeClusterRequest: handle_describe_cluster,
    DescribeConfigsRequest: handle_describe_configs,
    DescribeTopicPartitionsRequest: handle_describe_topic_partitions,
    IncrementalAlterConfigsRequest: handle_incremental_alter_configs,
    InitProducerIdRequest: handle_init_producer_id,
    MetadataRequest: handle_metadata,
}


class Groups:
    """The groups of a node, as admin requests ask about them."""

    def __init__(self) -> None:
        self.settings = GroupSettings()
        self.forgotten: list[str] = []

    async def forget_topic(self, name: str) -> None:
        self.forgotten.append(name)


class AdminWorld:
    """A broker; ``connection`` was accepted at kafka.example:9092."""

    def __init__(self, world: World, node: Node, settings: BrokerSettings) -> None:
        self.world = world
        self.node = node
        metadata, engine = node.metadata, node.engine
        signed = {"node_id": NODE_ID, "node_epoch": engine.node_epoch}
        topics = Topics(metadata, settings.topic_defaults)
        self.parts = BrokerParts(
            settings=settings,
            metadata=metadata,
            engine=engine,
            topics=topics,
            creation=TopicCreation(metadata, topics, settings, world.clock, Random(5), **signed),
            partitions=Partitions(engine, metadata, topics, settings, world.clock),
            groups=Groups(),
            transactions=None,  # admin requests do not ask about them
            markers=None,
            producer_ids=ProducerIds(metadata),
            clock=world.clock,
            rng=Random(6),
            cluster_id=CLUSTER_ID,
            cluster=ClusterView(metadata, world.clock, NODE_ID),
            shares=None,
            **signed,
        )
        self.connection = connection_at("kafka.example", 9092)

    async def answer(
        self, request: Message, version: int | None = None, connection: ConnectionContext | None = None
    ) -> Any:
        """Returns what a client reads that asks in the version, or in the highest one if none is given."""
        kind = type(request)
        asked = kind.versions[1] if version is None else version
        context = RequestContext(connection or self.connection, kind.api_key, asked, 1, "a client")
        received = decode(kind, asked, memoryview(encode(request, asked) + b"trailing bytes"))
        response = await HANDLERS[kind](self.parts, context, received)
        body = response.body if isinstance(response, EncodedBody) else encode(response, asked)
        return decode(CATALOGUE[kind.api_key][1], asked, body)

    async def assert_refused(self, request: Message, resource: Any, code: int) -> None:
        """The request to alter this one resource is refused with the code and a reason, and nothing is written."""
        version = self.version
        (response,) = (await self.answer(request)).responses
        assert response.error_code == code and response.error_message
        named = (response.resource_type, response.resource_name)
        assert named == (resource.resource_type, resource.resource_name)
        assert self.version == version

    async def create(self, name: str, partitions: int = 1, **configs: str) -> Topic:
        """``retention_ms`` stands for retention.ms."""
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        return await self.parts.creation.create(
            NewTopic(name=name, partition_count=partitions, configs=dotted)
        )

    @property
    def version(self) -> int:
        """The version of the metadata, which grows with everything that is written."""
        return self.parts.metadata.image.version


def connection_at(host: str, port: int) -> ConnectionContext:
    return ConnectionContext(
        connection_id=1, client_host="client.example", listener=Listener("PLAINTEXT", host, port)
    )


def in_admin_world(
    scenario: Callable[[AdminWorld], Awaitable[None]], settings: BrokerSettings | None = None
) -> None:
    async def main(folder: Path) -> None:
        world = World(folder)
        node = await world.open(msgspec.structs.replace(SMALL, node_id=NODE_ID))
        admin = AdminWorld(world, node, settings or BrokerSettings())
        await scenario(admin)
        await admin.parts.partitions.close()
        await node.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
