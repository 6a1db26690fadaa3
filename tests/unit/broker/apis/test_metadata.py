import asyncio
from collections import Counter

import pytest

from siltstone.broker.apis.metadata import handle_metadata
from siltstone.broker.apis.topic_description import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from siltstone.broker.request import RequestContext
from siltstone.broker.settings import BrokerSettings
from siltstone.broker.topics.names import OFFSETS_TOPIC
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.metadata.commands import AddPartitions
from siltstone.metadata.store.port import LogUnavailable
from support.broker.admin_world import CLUSTER_ID, NODE_ID, connection_at, in_admin_world
from support.processes.calls_counted import calls_counted
from support.scenarios import scenario

VERSIONS = range(14)


def asking(*names: str, creates: bool = False, **fields) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=creates, **fields)


@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_admin_world)
async def test_a_topic_is_described_in_every_version(world, version) -> None:
    topic = await world.create("t", partitions=2)
    answer = await world.answer(asking("t"), version)
    (found,) = answer.topics
    assert (found.error_code, found.name, found.is_internal) == (0, "t", False)
    assert found.topic_id == (topic.topic_id if version >= 10 else NO_UUID)
    assert [partition.partition_index for partition in found.partitions] == [0, 1]
    for partition in found.partitions:
        assert (partition.error_code, partition.leader_id) == (0, NODE_ID)
        assert partition.replica_nodes == partition.isr_nodes == [NODE_ID]
        assert partition.offline_replicas == []


@pytest.mark.parametrize("version", VERSIONS)
@scenario(in_admin_world)
async def test_item_15_and_16_the_broker_is_its_own_controller_and_the_cluster_has_an_id(
    world, version
) -> None:
    answer = await world.answer(asking(), version)
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (NODE_ID, "kafka.example", 9092)
    assert version < 1 or answer.controller_id == NODE_ID
    assert version < 2 or answer.cluster_id == CLUSTER_ID


@scenario(in_admin_world)
async def test_item_56_a_client_is_told_the_address_of_the_listener_it_came_to(world) -> None:
    for host, port in (("inside", 1), ("outside.example", 19092)):
        (broker,) = (await world.answer(asking(), 12, connection_at(host, port))).brokers
        assert (broker.host, broker.port) == (host, port)


@scenario(in_admin_world)
async def test_item_16_operations_are_told_when_asked_for_and_never_0(world) -> None:
    await world.create("t")
    silent = await world.answer(asking("t"), 8)
    assert silent.cluster_authorized_operations == NOT_ASKED == -2147483648
    assert silent.topics[0].topic_authorized_operations == NOT_ASKED
    request = asking(
        "t", include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    told = await world.answer(request, 8)
    assert told.cluster_authorized_operations == CLUSTER_OPERATIONS
    assert told.topics[0].topic_authorized_operations == TOPIC_OPERATIONS
    all_topics = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    assert (await world.answer(all_topics)).topics[0].topic_authorized_operations == TOPIC_OPERATIONS


def test_the_operations_are_those_that_kafka_knows_of_topics_and_clusters():
    """AclOperation codes: READ 3, WRITE 4, CREATE 5, DELETE 6, ALTER 7, DESCRIBE 8, CLUSTER_ACTION 9, …"""
    assert f"{TOPIC_OPERATIONS:b}" == "110111111000"
    assert f"{CLUSTER_OPERATIONS:b}" == "1111110100000"


@scenario(in_admin_world)
async def test_item_12_nothing_means_all_in_version_0_and_nothing_from_then_on_and_null_means_all(
    world,
) -> None:
    for name in ("b", "a"):
        await world.create(name)

    async def names(request: MetadataRequest, version: int) -> list[str]:
        return [topic.name for topic in (await world.answer(request, version)).topics]

    assert await names(MetadataRequest(topics=[]), 0) == ["a", "b"]
    for version in VERSIONS[1:]:
        assert await names(MetadataRequest(topics=[]), version) == []
        assert await names(MetadataRequest(topics=None), version) == ["a", "b"]


@scenario(in_admin_world)
async def test_item_12_asking_for_all_creates_none(world) -> None:
    answer = await world.answer(MetadataRequest(topics=None, allow_auto_topic_creation=True))
    assert answer.topics == []


REFUSED = [("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("", ErrorCode.INVALID_TOPIC_EXCEPTION),
           ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION), ("x" * 250, ErrorCode.INVALID_TOPIC_EXCEPTION)]  # fmt: skip


@pytest.mark.parametrize("creates", [True, False])
@pytest.mark.parametrize(("name", "code"), REFUSED)
def test_item_13_what_is_not_there_and_what_cannot_be(name, code, creates):
    async def scenario(world):
        (topic,) = (await world.answer(asking(name, creates=creates))).topics
        assert (topic.error_code, topic.name, topic.partitions) == (code, name, [])
        assert topic.topic_id == NO_UUID

    in_admin_world(scenario, BrokerSettings(auto_create_topics_enable=not creates or name != "nowhere"))


@scenario(in_admin_world)
async def test_item_13_one_topic_refused_does_not_hide_another(world) -> None:
    await world.create("t")
    answer = await world.answer(asking("nowhere", "t"))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("nowhere", 3), ("t", 0)]


@pytest.mark.parametrize(
    ("request_allows", "setting", "version", "made"),
    [
        (True, True, 12, True),
        (False, True, 12, False),
        (True, False, 12, False),
        (False, False, 12, False),
        (False, True, 3, True),  # before version 4 nobody is asked
        (False, False, 3, False),
    ],
)
def test_item_14_created_when_the_request_allows_it_and_the_setting(request_allows, setting, version, made):
    async def scenario(world):
        (topic,) = (await world.answer(asking("new", creates=request_allows), version)).topics
        assert (world.parts.topics.by_name("new") is not None) is made
        assert (topic.error_code, topic.partitions) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []), (
            "as Kafka's"
        )
        (topic,) = (await world.answer(asking("new", creates=False), 12)).topics
        assert (topic.error_code, len(topic.partitions)) == ((0, 3) if made else (3, 0))

    in_admin_world(scenario, BrokerSettings(auto_create_topics_enable=setting, num_partitions=3))


@scenario(in_admin_world)
async def test_item_14_many_ask_at_once_and_one_topic_is_made(world) -> None:
    answers = await asyncio.gather(*(world.answer(asking("new", creates=True)) for _ in range(10)))
    assert {answer.topics[0].error_code for answer in answers} == {3}
    assert len(world.parts.topics.all()) == 1


@scenario(in_admin_world)
async def test_item_13_trouble_with_the_metadata_is_not_the_clients_fault(world) -> None:
    async def unavailable(_command):
        raise LogUnavailable("try again later")

    world.parts.metadata.execute = unavailable
    (topic,) = (await world.answer(asking("new", creates=True))).topics
    assert topic.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    del world.parts.metadata.execute


@scenario(in_admin_world)
async def test_a_topic_asked_for_twice_is_answered_once(world) -> None:
    await world.create("t")
    assert len((await world.answer(asking("t", "t"))).topics) == 1


@pytest.mark.parametrize("version", [12, 13])
@scenario(in_admin_world)
async def test_item_17_a_topic_is_found_by_its_id_alone(world, version) -> None:
    topic = await world.create("t")
    by_id = [
        MetadataRequestTopic(name=None, topic_id=topic.topic_id),
        MetadataRequestTopic(name=None, topic_id=b"never heard of.."),
    ]
    found, unknown = (await world.answer(MetadataRequest(topics=by_id), version)).topics
    assert (found.error_code, found.name, found.topic_id) == (0, "t", topic.topic_id)
    assert (unknown.error_code, unknown.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
    assert unknown.topic_id == b"never heard of.."


@pytest.mark.parametrize("version", [10, 11])
@scenario(in_admin_world)
async def test_item_17_before_version_12_topics_have_names(world, version) -> None:
    topic = await world.create("t")
    for asked in (
        MetadataRequestTopic(name=None, topic_id=topic.topic_id),
        MetadataRequestTopic(name="t", topic_id=topic.topic_id),
        MetadataRequestTopic(name=None),
    ):
        (refused,) = (await world.answer(MetadataRequest(topics=[asked]), version)).topics
        assert refused.error_code == ErrorCode.INVALID_REQUEST


@scenario(in_admin_world)
async def test_item_17_made_again_a_topic_has_another_id(world) -> None:
    first = await world.create("t")
    await world.parts.partitions.delete_topic(first)
    second = await world.create("t")
    (found,) = (await world.answer(asking("t"))).topics
    assert found.topic_id == second.topic_id != first.topic_id


@scenario(in_admin_world)
async def test_item_18_the_leader_epoch_is_the_one_the_partition_is_opened_under(world) -> None:
    topic = await world.create("t")

    async def told() -> int:
        return (await world.answer(asking("t"))).topics[0].partitions[0].leader_epoch

    before = await told()
    assert before >= 0
    partition = await world.parts.partitions.open(topic, 0)
    assert await told() == before == partition.leader_epoch


@scenario(in_admin_world)
async def test_item_18_the_leader_epoch_never_goes_back_while_a_partition_is_being_opened(world) -> None:
    """Clients take no metadata with an older epoch than they have seen: they would ask again for ever."""
    topic = await world.create("t")
    opening = asyncio.ensure_future(world.parts.partitions.open(topic, 0))
    told = []
    while not opening.done():
        told.append((await world.answer(asking("t"))).topics[0].partitions[0].leader_epoch)
        await asyncio.sleep(0)
    assert len(told) > 2
    assert set(told) == {opening.result().leader_epoch}


@pytest.mark.parametrize("version", [1, 12])
@scenario(in_admin_world)
async def test_what_was_written_of_a_topic_is_written_again_when_it_changes(world, version) -> None:
    topic = await world.create("t")

    async def told() -> tuple[list[int], bytes]:
        (found,) = (await world.answer(asking("t"), version)).topics
        return [partition.leader_epoch for partition in found.partitions], found.topic_id

    first = await told()
    assert await told() == first
    await world.parts.metadata.execute(AddPartitions(NODE_ID, world.parts.node_epoch, topic.id, 3))
    assert len((await told())[0]) == 3
    world.parts.partitions.leader_epochs = lambda _topic: [70, 71, 72]
    expected = [70, 71, 72] if version >= 7 else [-1, -1, -1]
    assert (await told())[0] == expected
    del world.parts.partitions.leader_epochs


@scenario(in_admin_world)
async def test_all_topics_cost_little_when_nothing_has_changed(world) -> None:
    """Each topic is encoded once; 1,000 topics of 4 partitions then take about 2 ms, instead of 10."""
    await asyncio.gather(*(world.create(f"topic-{number}", partitions=4) for number in range(200)))
    everything = MetadataRequest(topics=None)
    context = RequestContext(world.connection, ApiKey.METADATA, 12, 1, None)
    first = await handle_metadata(world.parts, context, everything)
    with calls_counted() as calls:
        again = await handle_metadata(world.parts, context, everything)
    assert again == first
    assert "_described" not in calls and len(calls) < 40 * 200, Counter(calls).most_common(10)


@scenario(in_admin_world, BrokerSettings(offsets_topic_num_partitions=2))
async def test_the_topic_of_group_offsets_is_internal(world) -> None:
    await world.parts.creation.offsets_topic()
    (topic,) = (await world.answer(asking(OFFSETS_TOPIC))).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 2)


def test_item_3_the_all_topics_request_of_librdkafka_with_three_bytes_too_many():
    """Its array of topics in version 13 is four zero bytes where one says null; the rest is read as usual."""
    from siltstone.kafka_protocol.codec import decode

    async def scenario(world):
        await world.create("t")
        request = decode(MetadataRequest, 13, memoryview(bytes.fromhex("0000000000010000")))
        assert request.topics is None and not request.allow_auto_topic_creation
        assert [topic.name for topic in (await world.answer(request, 13)).topics] == ["t"]

    in_admin_world(scenario)
