import pytest

from siltstone.broker.apis.describe_topic_partitions import PARTITIONS_PER_PAGE_MAX
from siltstone.broker.apis.topic_description import TOPIC_OPERATIONS
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from support.broker.admin_world import NODE_ID, in_admin_world
from support.scenarios import scenario


def asking(*names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None):
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def shown(answer) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    topics = [
        (topic.name, [partition.partition_index for partition in topic.partitions]) for topic in answer.topics
    ]
    cursor = answer.next_cursor
    return topics, cursor and (cursor.topic_name, cursor.partition_index)


@scenario(in_admin_world)
async def test_a_topic_as_it_is(world) -> None:
    made = await world.create("t")
    (topic,) = (await world.answer(asking("t"))).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "t", made.topic_id)
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, TOPIC_OPERATIONS)
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (0, NODE_ID)
    assert partition.leader_epoch == world.parts.partitions.leader_epoch(made, 0)
    assert partition.replica_nodes == partition.isr_nodes == [NODE_ID]
    assert partition.eligible_leader_replicas == partition.last_known_elr == []
    assert partition.offline_replicas == []


@scenario(in_admin_world)
async def test_topics_come_in_the_order_of_their_names_and_all_when_none_is_named(world) -> None:
    for name in ("b", "c", "a"):
        await world.create(name)
    assert shown(await world.answer(asking("c", "a"))) == ([("a", [0]), ("c", [0])], None)
    assert shown(await world.answer(asking())) == ([("a", [0]), ("b", [0]), ("c", [0])], None)


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("names", [(), ("a", "b", "c", "nowhere")])
@scenario(in_admin_world)
async def test_page_by_page_everything_comes_once(world, limit, names) -> None:
    for name, partitions in (("a", 3), ("b", 1), ("c", 2)):
        await world.create(name, partitions)
    seen: list[tuple[str, int]] = []
    cursor, pages = None, 0
    while True:
        topics, cursor = shown(await world.answer(asking(*names, limit=limit, cursor=cursor)))
        assert sum(len(indexes) for _, indexes in topics) <= limit
        seen += [(name, index) for name, indexes in topics for index in indexes]
        pages += 1
        if cursor is None:
            break
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]
    # a name that is nobody's may need a page to be said
    assert -(-6 // limit) <= pages <= -(-6 // limit) + 1


@scenario(in_admin_world)
async def test_a_page_that_ends_with_a_topic_names_the_next_one(world) -> None:
    await world.create("a", 2)
    await world.create("b", 2)
    assert shown(await world.answer(asking(limit=2))) == ([("a", [0, 1])], ("b", 0))
    assert shown(await world.answer(asking(limit=3))) == ([("a", [0, 1]), ("b", [0])], ("b", 1))


@scenario(in_admin_world)
async def test_a_limit_of_nothing_still_gets_on_and_no_limit_is_above_the_brokers(world) -> None:
    await world.create("a", 3)
    assert shown(await world.answer(asking(limit=0))) == ([("a", [0])], ("a", 1))
    assert shown(await world.answer(asking(limit=-5))) == ([("a", [0])], ("a", 1))
    await world.create("b", PARTITIONS_PER_PAGE_MAX + 1)
    topics, cursor = shown(await world.answer(asking("b", limit=2**31 - 1)))
    assert len(topics[0][1]) == PARTITIONS_PER_PAGE_MAX
    assert cursor == ("b", PARTITIONS_PER_PAGE_MAX)


@scenario(in_admin_world)
async def test_a_topic_that_went_while_it_was_paged_through_is_passed_over(world) -> None:
    await world.create("a", 2)
    await world.create("c", 1)
    assert shown(await world.answer(asking(cursor=("b", 1)))) == ([("c", [0])], None)
    assert shown(await world.answer(asking(cursor=("a", 7)))) == ([("a", []), ("c", [0])], None)
    await world.create("d", 9)
    page = await world.answer(asking(limit=2, cursor=("a", 7)))
    assert shown(page) == ([("a", []), ("c", [0]), ("d", [0])], ("d", 1))


@pytest.mark.parametrize(("name", "code"), [("nowhere", 3), ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION)])
@scenario(in_admin_world)
async def test_item_13_what_is_not_there_and_what_cannot_be(world, name, code) -> None:
    await world.create("t")
    refused, found = (await world.answer(asking(name, "t"))).topics
    assert (refused.error_code, refused.name, refused.partitions) == (code, name, [])
    assert found.error_code == 0


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)])
@scenario(in_admin_world)
async def test_a_cursor_that_cannot_be(world, cursor) -> None:
    await world.create("a")
    (topic,) = (await world.answer(asking("a", cursor=cursor))).topics
    assert (topic.name, topic.error_code) == ("a", ErrorCode.INVALID_REQUEST)
