import pytest
from msgspec.structs import replace

from siltstone.metadata.commands import (
    AddPartitions,
    AlterTopicConfigs,
    CloseStream,
    CreateStream,
    CreateTopic,
    DeleteStream,
    DeleteTopic,
    OpenStream,
    RegisterNode,
)
from siltstone.metadata.entities import NO_EPOCH, PartitionMetadata, StreamState, TopicMetadata
from siltstone.model.limits import PARTITIONS_PER_COMMAND_MAX
from siltstone.model.objects import ObjectState
from support.metadata.metadata_world import MetadataWorld

ID, OTHER_ID = "0123456789abcdef" * 2, "f" * 32


def create(name: str = "flights", topic_id: str = ID, count: int = 2, **more) -> CreateTopic:
    return CreateTopic(0, 1, name, topic_id, count, **more)


@pytest.fixture
def world() -> MetadataWorld:
    """Nodes 0 and 1; stream 0, nobody's topic's; topic flights with streams 1, 2 and 3, 4, not opened."""
    made = MetadataWorld()
    made.register(0)
    made.register(1)
    made.do(CreateStream(0, 1))
    made.do(create(configs={"retention.ms": "1000"}, replication_factor=3))
    return made


def test_a_topic_comes_with_two_streams_for_each_partition(world) -> None:
    made = TopicMetadata(
        topic_id=ID,
        name="flights",
        partitions=(PartitionMetadata(1, 2, 0), PartitionMetadata(3, 4, 0)),
        configs={"retention.ms": "1000"},
        replication_factor=3,
        created_ms=world.now_ms,
        is_internal=False,
    )
    assert world.image.topics[ID] == made
    assert dict(world.image.topic_ids) == {"flights": ID}
    assert [world.image.streams[number].tags for number in (1, 2, 3, 4)] == [
        {"topic": "flights", "partition": "0", "kind": "data"},
        {"topic": "flights", "partition": "0", "kind": "meta"},
        {"topic": "flights", "partition": "1", "kind": "data"},
        {"topic": "flights", "partition": "1", "kind": "meta"},
    ]
    assert {stream.state for stream in world.image.streams.values()} == {StreamState.CLOSED}
    assert world.open_stream() == 5, "its streams' ids are given out once"


def test_creating_answers_what_the_image_shows_then(world) -> None:
    answer = world.do(create("other", OTHER_ID, 1, is_internal=True))
    assert answer == world.image.topics[OTHER_ID]
    assert answer.is_internal


def test_asking_again_changes_nothing_and_answers_what_stands(world) -> None:
    world.do(AddPartitions(0, 1, ID, 3))
    assert world.do(create()) == world.image.topics[ID]
    assert (world.written, len(world.image.topics[ID].partitions)) == (0, 3)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(create(topic_id=OTHER_ID), "TOPIC_ALREADY_EXISTS", id="the name with another id"),
        pytest.param(create("other"), "TOPIC_ALREADY_EXISTS", id="the id with another name"),
        pytest.param(create("", OTHER_ID), "INVALID_TOPIC_NAME", id="no name"),
        pytest.param(create("..", OTHER_ID), "INVALID_TOPIC_NAME", id="a name of dots"),
        pytest.param(create("a" * 250, OTHER_ID), "INVALID_TOPIC_NAME", id="a name too long"),
        pytest.param(create("a", OTHER_ID, 0), "INVALID_REQUEST", id="no partition"),
        pytest.param(create("a", OTHER_ID, 1, replication_factor=0), "INVALID_REQUEST", id="no replica"),
        pytest.param(create("a", OTHER_ID, 10_001), "TOO_MANY_PARTITIONS", id="too many partitions"),
        pytest.param(create("a", OTHER_ID[:-1], 1), "INVALID_REQUEST", id="an id too short"),
        pytest.param(create("a", OTHER_ID.upper(), 1), "INVALID_REQUEST", id="an id in capitals"),
        pytest.param(
            create("a", OTHER_ID, 1, configs={"k": "ö" * 33_000}), "INVALID_REQUEST", id="too long configs"
        ),
        pytest.param(CreateTopic(0, 0, "a", OTHER_ID, 1), "NODE_EPOCH_EXPIRED", id="a lower node epoch"),
        pytest.param(CreateTopic(7, 1, "a", OTHER_ID, 1), "NODE_EPOCH_NOT_EXIST", id="an unknown node"),
    ],
)
def test_topics_that_are_not_made(world, command: CreateTopic, expected: str) -> None:
    assert world.outcome(command) == (expected, 0)


def test_rule_7_a_lower_node_epoch_changes_no_topic(world) -> None:
    world.do(RegisterNode(0, "second", "wal"))
    for command in (create("a", OTHER_ID), AddPartitions(0, 1, ID, 9), DeleteTopic(0, 1, ID)):
        assert world.outcome(command) == ("NODE_EPOCH_EXPIRED", 0)


def test_names_that_metrics_could_not_tell_apart(world) -> None:
    world.do(create("a.b", "1" * 32))
    assert world.outcome(create("a_b", OTHER_ID)) == ("TOPIC_NAME_COLLIDES", 0)
    world.do(DeleteTopic(0, 1, "1" * 32))
    assert world.outcome(create("a_b", OTHER_ID))[0] == "OK"


def test_as_many_partitions_as_one_command_may_add(world) -> None:
    most = PARTITIONS_PER_COMMAND_MAX
    assert world.outcome(create("a", OTHER_ID, most + 1)) == ("TOO_MANY_PARTITIONS", 0)
    assert world.outcome(create("a", OTHER_ID, most)) == ("OK", 2 * most + 1)
    assert world.outcome(AddPartitions(0, 1, OTHER_ID, 2 * most + 1)) == ("TOO_MANY_PARTITIONS", 0)
    assert world.outcome(AddPartitions(0, 1, OTHER_ID, 2 * most)) == ("OK", 2 * most + 1)


def test_ab08_a_store_has_no_more_partitions_than_its_nodes_allow(world) -> None:
    """The world has two, which a node leads."""
    assert world.outcome(create("a", OTHER_ID, 3, partitions_max=4)) == ("STORE_FULL", 0)
    assert world.outcome(AddPartitions(0, 1, ID, 5, partitions_max=4)) == ("STORE_FULL", 0)
    assert world.outcome(create("a", OTHER_ID, 2, partitions_max=4)) == ("OK", 5)
    assert world.outcome(create("b", "b" * 32, 1, partitions_max=4)) == ("STORE_FULL", 0)
    assert world.outcome(create("b", "b" * 32, 1, is_internal=True, partitions_max=4))[0] == "OK", (
        "it is needed"
    )
    world.do(DeleteTopic(0, 1, OTHER_ID))
    assert world.outcome(AddPartitions(0, 1, ID, 3, partitions_max=4))[0] == "OK"


def test_partitions_are_added_at_the_end(world) -> None:
    answer = world.do(AddPartitions(1, 1, ID, 4))
    assert answer == world.image.topics[ID]
    assert [partition.data_stream_id for partition in answer.partitions] == [1, 3, 5, 7]
    assert world.image.streams[8].tags == {"topic": "flights", "partition": "3", "kind": "meta"}
    assert answer == replace(answer, created_ms=world.now_ms, configs={"retention.ms": "1000"})


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (AddPartitions(0, 1, ID, 2), "PARTITION_COUNT_NOT_LARGER"),
        (AddPartitions(0, 1, ID, 1), "PARTITION_COUNT_NOT_LARGER"),
        (AddPartitions(0, 1, ID, -5), "PARTITION_COUNT_NOT_LARGER"),
        (AddPartitions(0, 1, OTHER_ID, 3), "TOPIC_NOT_EXIST"),
        (AddPartitions(0, 0, ID, 3), "NODE_EPOCH_EXPIRED"),
    ],
)
def test_partitions_that_are_not_added(world, command: AddPartitions, expected: str) -> None:
    assert world.outcome(command) == (expected, 0)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (AlterTopicConfigs(ID, {"a": "1"}), {"retention.ms": "1000", "a": "1"}),
        (AlterTopicConfigs(ID, {"retention.ms": "2"}), {"retention.ms": "2"}),
        (AlterTopicConfigs(ID, {"a": "1"}, ("retention.ms", "unknown")), {"a": "1"}),
        (AlterTopicConfigs(ID, {"a": "1"}, replace=True), {"a": "1"}),
        (AlterTopicConfigs(ID, replace=True), {}),
        (
            AlterTopicConfigs(ID, {"a": "1"}, expected={"retention.ms": "1000"}),
            {"retention.ms": "1000", "a": "1"},
        ),
    ],
    ids=["put", "put again", "remove", "replace", "replace by nothing", "expected"],
)
def test_configs(world, command: AlterTopicConfigs, expected: dict[str, str]) -> None:
    answer = world.do(command)
    assert answer == world.image.topics[ID]
    assert answer.configs == expected
    assert world.outcome(command) == ("OK", 0), "it stands already"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (AlterTopicConfigs(ID, {"a": "1"}, ("a",)), "INVALID_REQUEST"),
        (AlterTopicConfigs(ID, {"a": "1" * 65_536}), "INVALID_REQUEST"),
        (AlterTopicConfigs(OTHER_ID, {"a": "1"}), "TOPIC_NOT_EXIST"),
        (AlterTopicConfigs(ID, {"a": "1"}, expected={"retention.ms": "999"}), "TOPIC_CONFIGURED_OTHERWISE"),
        (AlterTopicConfigs(ID, {"a": "1"}, expected={}), "TOPIC_CONFIGURED_OTHERWISE"),
    ],
    ids=["put and removed", "too long", "unknown topic", "another stands", "one stands"],
)
def test_configs_that_are_not_altered(world, command: AlterTopicConfigs, expected: str) -> None:
    assert world.outcome(command) == (expected, 0)


@pytest.fixture
def in_use(world) -> MetadataWorld:
    """Streams 1 to 4 open at node 0; SSO 0 with 0, 1 and 3; SO 1 with 1; SO 2 with 4."""
    world.do(OpenStream(0, 1, 0, 0))
    for stream_id in (1, 2, 3, 4):
        world.do(OpenStream(0, 1, stream_id, 0))
    world.do(world.upload((0, 0, 5), (1, 0, 10), (3, 0, 10)))
    world.do(world.upload(alone=((1, 10, 20), (4, 0, 7))))
    return world


def test_a_topic_is_deleted_with_its_streams_those_that_are_open_too(in_use) -> None:
    in_use.do(CloseStream(0, 1, 2, 0))
    assert in_use.outcome(DeleteTopic(0, 1, ID)) == ("OK", 1 + 4 + 1 + 2)
    assert (len(in_use.image.topics), len(in_use.image.topic_ids)) == (0, 0)
    assert {i: row.state for i, row in in_use.image.streams.items()} == {
        0: StreamState.OPENED,
        1: StreamState.DELETED,
        3: StreamState.DELETED,
    }, "2 and 4 are held by nothing any more"
    assert [in_use.image.objects[object_id].state for object_id in range(3)] == [
        ObjectState.COMMITTED,
        ObjectState.DESTROYED,
        ObjectState.DESTROYED,
    ]
    assert in_use.outcome(DeleteTopic(0, 1, ID)) == ("TOPIC_NOT_EXIST", 0)


def test_what_is_uploaded_for_a_deleted_topic_is_dead_on_arrival(in_use) -> None:
    """The forgotten stream's as well as the deleted one's; what else the block held arrives."""
    late = in_use.upload((0, 5, 9), (1, 20, 30), (2, 0, 4), alone=((4, 7, 50),))
    in_use.do(DeleteTopic(0, 1, ID))
    in_use.do(late)
    assert in_use.held(0) == [(0, 0, 5), (3, 5, 9)]
    assert (in_use.held(1), in_use.ends(1)) == ([(0, 0, 10)], (20,))
    assert in_use.image.objects[4].state is ObjectState.DESTROYED
    assert set(in_use.image.streams) == {0, 1, 3}


def test_a_deleted_topic_s_streams_go_with_the_last_object_that_holds_them(in_use) -> None:
    in_use.do(DeleteTopic(0, 1, ID))
    in_use.do(in_use.compaction(in_use.start_job(), (0,), alone=((0, 0, 5),)))
    assert set(in_use.image.streams) == {0}


def test_n16_a_topic_that_another_node_has_open_is_deleted(in_use) -> None:
    in_use.do(CloseStream(0, 1, 4, 0))
    in_use.do(OpenStream(1, 1, 4, 1))
    assert in_use.outcome(DeleteTopic(0, 1, ID))[0] == "OK"
    assert 4 not in in_use.image.streams
    assert in_use.outcome(CloseStream(1, 1, 4, 1)) == ("STREAM_NOT_EXIST", 0)


def test_a_name_is_free_again_and_its_streams_are_others(world) -> None:
    world.do(DeleteTopic(0, 1, ID))
    assert world.do(create(topic_id=OTHER_ID)).partitions[0] == PartitionMetadata(5, 6, 0)


def test_a_topic_s_stream_is_not_deleted_by_itself(world) -> None:
    world.do(AddPartitions(0, 1, ID, 3))
    for stream_id in (1, 4, 6):
        assert world.outcome(DeleteStream(0, 1, stream_id, NO_EPOCH)) == ("STREAM_OF_TOPIC", 0)


def test_a_stream_with_a_topic_s_tags_that_is_not_the_topic_s_is_deleted(world) -> None:
    tags = world.image.streams[1].tags
    for worn in (tags, {"topic": "unknown"}):
        stream_id = world.do(CreateStream(0, 1, worn))
        assert world.outcome(DeleteStream(0, 1, stream_id, NO_EPOCH)) == ("OK", 2)
