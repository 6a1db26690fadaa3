"""Items 45 and 46 of docs/scenarios.md, and of 11 what concerns them: offsets committed and fetched."""

from typing import Any

import msgspec
import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from support.groups.group_client import (
    GROUP,
    GroupClient,
    commit,
    commit_request,
    committed,
    describe,
    fetch_request,
    stable_group,
)
from support.groups.groups_world import GroupsWorld, run
from support.scenarios import scenario

# -- 45 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 11))
@scenario(run)
async def test_item_45_without_a_generation_offsets_are_taken_from_anybody_while_the_group_is_empty(
    world: GroupsWorld, version: int
) -> None:
    flights = world.topics.topics["flights"].topic_id
    assert await commit(world, commit_request(7, topic_id=flights), version) == ErrorCode.NONE
    assert await committed(world) == {("flights", 0): 7}
    (first,) = await stable_group(world, "first")
    asked = commit_request(8, topic_id=flights)
    assert await commit(world, asked, version) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await first.commit(10, version, topic_id=flights) == ErrorCode.NONE
    assert await committed(world) == {("flights", 0): 10}
    await first.leave()
    assert await commit(world, commit_request(9, topic_id=flights), version) == ErrorCode.NONE
    assert await committed(world) == {("flights", 0): 9}


@scenario(run)
async def test_item_45_a_member_commits_under_its_generation_but_not_before_its_assignment(
    world: GroupsWorld,
) -> None:
    first, second = await stable_group(world, "first", "second")
    assert await first.commit(5) == ErrorCode.NONE
    joining = await GroupClient(world, "third").begin_join()
    assert await second.commit(6) == ErrorCode.NONE  # the last chance before its partitions go
    for client in (first, second):
        await client.begin_join()
    first.generation = joining.result().generation_id
    assert await first.commit(7) == ErrorCode.REBALANCE_IN_PROGRESS
    assert await committed(world) == {("flights", 0): 6}


@scenario(run)
async def test_item_45_a_commit_keeps_the_session(world: GroupsWorld) -> None:
    (first,) = await stable_group(world, "first", session_ms=10_000)
    for offset in range(4):
        await world.pass_ms(6_000)
        assert await first.commit(offset) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("x" * 4096, ErrorCode.NONE),
        ("x" * 4097, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        ("ü" * 2049, ErrorCode.OFFSET_METADATA_TOO_LARGE),
        (None, ErrorCode.NONE),
    ],
    ids=["4096", "4097", "in bytes", "null"],
)
@scenario(run)
async def test_item_45_metadata_has_a_limit(
    world: GroupsWorld, metadata: str | None, expected: ErrorCode
) -> None:
    assert await commit(world, commit_request(5, metadata=metadata)) == expected
    assert (await committed(world) == {}) is (expected != ErrorCode.NONE)


@pytest.mark.parametrize(("topic", "partition"), [("nowhere", 0), ("flights", 4), ("flights", -1)])
@scenario(run)
async def test_item_45_unknown_partitions_have_their_own_error(
    world: GroupsWorld, topic: str, partition: int
) -> None:
    request = commit_request(5, topic=topic, partition=partition)
    request.topics.extend(commit_request(6, topic="planes").topics)
    response = await world.ask(request, 8)
    codes = [topic.partitions[0].error_code for topic in response.topics]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]
    assert await committed(world) == {("planes", 0): 6}


@scenario(run)
async def test_item_45_version_10_names_topics_by_id(world: GroupsWorld) -> None:
    flights = world.topics.topics["flights"].topic_id
    assert await commit(world, commit_request(5, topic_id=flights), 10) == ErrorCode.NONE
    unknown = commit_request(5, topic_id=b"?" * 16)
    response = await world.ask(unknown, 10)
    assert response.topics[0].topic_id == b"?" * 16
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert await committed(world) == {("flights", 0): 5}


@pytest.mark.parametrize(
    ("version", "expected"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
@scenario(run)
async def test_item_45_a_generation_of_an_unknown_group(
    world: GroupsWorld, version: int, expected: ErrorCode
) -> None:
    request = commit_request(5, member_id="somebody", generation=3)
    assert await commit(world, request, version) == expected
    assert (await describe(world)).group_state == "Dead"


# -- 46 --------------------------------------------------------------------------------------------------


def partitions_of(version: int, response: Any) -> list[tuple[int, int, str, int]]:
    topics = response.topics if version < 8 else response.groups[0].topics
    return [
        (partition.partition_index, partition.committed_offset, partition.metadata, partition.error_code)
        for topic in topics
        for partition in topic.partitions
    ]


@pytest.mark.parametrize("version", range(1, 11))
@scenario(run)
async def test_item_46_what_nobody_committed_is_minus_one_and_no_error(
    world: GroupsWorld, version: int
) -> None:
    flights = world.topics.topics["flights"].topic_id
    nobody = fetch_request(version, "nobody", "flights", 0, topic_id=flights)
    assert partitions_of(version, await world.ask(nobody, version)) == [(0, -1, "", 0)]
    await commit(world, commit_request(7, partition=1, metadata="seven"))
    request = fetch_request(version, GROUP, "flights", 0, 1, topic_id=flights)
    response = await world.ask(request, version)
    assert partitions_of(version, response) == [(0, -1, "", 0), (1, 7, "seven", 0)]
    assert (response.error_code if version < 8 else response.groups[0].error_code) == 0
    if version < 10:
        nowhere = await world.ask(fetch_request(version, GROUP, "nowhere", 0), version)
        assert partitions_of(version, nowhere) == [(0, -1, "", 0)]


@pytest.mark.parametrize("version", range(7, 11))
@scenario(run)
async def test_item_46_every_offset_is_stable(world: GroupsWorld, version: int) -> None:
    flights = world.topics.topics["flights"].topic_id
    await commit(world, commit_request(7))
    asked = fetch_request(version, GROUP, "flights", 0, topic_id=flights)
    request = msgspec.structs.replace(asked, require_stable=True)
    assert partitions_of(version, await world.ask(request, version)) == [(0, 7, "", 0)]


@pytest.mark.parametrize("version", range(2, 11))
@scenario(run)
async def test_item_46_null_means_all_and_an_empty_list_none(world: GroupsWorld, version: int) -> None:
    await commit(world, commit_request(7, partition=1))
    await commit(world, commit_request(8, topic="planes"))
    for topics, expected in ((None, [(0, 8), (1, 7)]), ([], [])):
        if version < 8:
            request = OffsetFetchRequest(group_id=GROUP, topics=topics)
        else:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=topics)])
        found = partitions_of(version, await world.ask(request, version))
        assert sorted((partition, offset) for partition, offset, _, _ in found) == expected


@scenario(run)
async def test_item_46_the_leader_epoch_comes_back(world: GroupsWorld) -> None:
    await commit(world, commit_request(7, leader_epoch=3))
    response = await world.ask(fetch_request(9, GROUP, "flights", 0), 9)
    assert response.groups[0].topics[0].partitions[0].committed_leader_epoch == 3


@scenario(run)
async def test_item_46_several_groups_in_one_request(world: GroupsWorld) -> None:
    await commit(world, commit_request(7, group="one"))
    await commit(world, commit_request(8, group="two"))
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in ("one", "two", "none")]
    )
    response = await world.ask(request, 9)
    assert [group.group_id for group in response.groups] == ["one", "two", "none"]
    offsets = [
        [partition.committed_offset for topic in group.topics for partition in topic.partitions]
        for group in response.groups
    ]
    assert offsets == [[7], [8], []]


@scenario(run)
async def test_item_46_version_10_an_unknown_id_has_its_own_error(world: GroupsWorld) -> None:
    request = fetch_request(10, GROUP, "", 0, 1, topic_id=b"?" * 16)
    response = await world.ask(request, 10)
    assert [row[3] for row in partitions_of(10, response)] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2
    assert response.groups[0].topics[0].topic_id == b"?" * 16


@pytest.mark.parametrize("version", range(1, 11))
@scenario(run)
async def test_items_11_and_46_errors_of_the_group_stand_where_the_version_has_them(
    world: GroupsWorld, version: int
) -> None:
    flights = world.topics.topics["flights"].topic_id
    await world.groups.close()
    response = await world.ask(fetch_request(version, GROUP, "flights", 0, 1, topic_id=flights), version)
    if version >= 8:
        assert response.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        assert response.groups[0].topics == []
    else:
        assert [row[3] for row in partitions_of(version, response)] == [ErrorCode.NOT_COORDINATOR] * 2
        assert response.error_code == (ErrorCode.NOT_COORDINATOR if version >= 2 else 0)
