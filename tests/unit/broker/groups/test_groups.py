"""Several coordinators behind one front."""

import asyncio
import re

import pytest

from siltstone.broker.groups.groups import partition_of_group
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from siltstone.kafka_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from siltstone.model.errors import Unavailable
from support.groups.group_client import commit_request, committed
from support.groups.group_logs import MemoryGroupLogs
from support.groups.groups_world import GroupsWorld, closed, run, turns


def told(story, partition_count: int = 8) -> None:  # type: ignore[no-untyped-def]
    async def run_it() -> None:
        world = GroupsWorld(logs=MemoryGroupLogs(partition_count))
        await story(world)
        await closed(world)

    asyncio.run(run_it())


def test_each_group_lives_in_the_partition_that_kafka_says() -> None:
    async def story(world: GroupsWorld) -> None:
        for number in range(20):
            await world.ask(commit_request(number, group=f"group-{number}"), 8)
        for number in range(20):
            partition = partition_of_group(f"group-{number}", 8)
            keys = b"".join(record[0] for _, record in world.logs.logs[partition].records)
            assert f"group-{number}".encode() in keys
        assert sum(len(log.records) for log in world.logs.logs) == 20

    told(story)


def test_only_partitions_that_are_asked_for_are_loaded_unless_started() -> None:
    async def story(world: GroupsWorld) -> None:
        await world.ask(commit_request(1), 8)
        await turns()
        assert sum(log.reads for log in world.logs.logs) == 1
        await world.groups.start()
        await turns()
        assert [log.reads for log in world.logs.logs] == [1] * 8

    told(story)


def test_a_list_is_of_all_partitions_loaded_for_it() -> None:
    async def story(world: GroupsWorld) -> None:
        for number in range(20):
            await world.ask(commit_request(number, group=f"group-{number}"), 8)
        world.restart()
        listed = await world.ask(ListGroupsRequest(), 5)
        assert {group.group_id for group in listed.groups} == {f"group-{number}" for number in range(20)}

    told(story)


def test_a_list_is_whole_or_an_error() -> None:
    async def story(world: GroupsWorld) -> None:
        world.logs.logs[3].reading.clear()
        listing = await world.begin(ListGroupsRequest(), 5)
        await world.pass_ms(600)
        assert listing.result().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert listing.result().groups == []

    told(story)


def test_one_damaged_partition_is_no_trouble_to_the_groups_of_others() -> None:
    async def story(world: GroupsWorld) -> None:
        damaged = partition_of_group("damaged", 8)
        world.logs.logs[damaged].records.append((0, (b"\x00\x01\x00", None)))
        sound = next(f"group-{n}" for n in range(99) if partition_of_group(f"group-{n}", 8) != damaged)
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in ("damaged", sound)]
        )
        response = await world.ask(request, 8)
        codes = [group.error_code for group in response.groups]
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]

    told(story)


def test_without_the_topic_of_offsets_clients_come_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: GroupsWorld) -> None:
        async def partition_count() -> int:
            raise Unavailable("the metadata log is away")

        logs = world.groups._logs
        real_count, logs.partition_count = logs.partition_count, partition_count
        response = await world.ask(commit_request(1), 8)
        assert response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (await world.ask(ListGroupsRequest(), 5)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await world.groups.start()
        await world.groups.forget_topic("flights")
        assert "the metadata log is away" in caplog.text
        logs.partition_count = real_count
        response = await world.ask(commit_request(1), 8)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NONE

    told(story)


def test_member_ids_are_unlike_one_another_and_begin_with_whose_they_are() -> None:
    async def story(world: GroupsWorld) -> None:
        ids = {world.groups.new_member_id("dash") for _ in range(100)}
        assert len(ids) == 100
        uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
        assert all(re.fullmatch(f"dash-{uuid}", member_id) for member_id in ids)
        longest = world.groups.new_member_id("世" * 32_767)
        assert re.fullmatch(f"世+-{uuid}", longest) and len(longest.encode()) <= 32_767

    told(story)


def test_after_the_end_there_is_no_coordinator() -> None:
    async def story(world: GroupsWorld) -> None:
        await world.groups.close()
        response = await world.ask(commit_request(1), 8)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert world.groups.statistics.timers == 0

    run(story)


def test_groups_of_all_partitions_share_one_limit_and_one_heap() -> None:
    async def story(world: GroupsWorld) -> None:
        for number in range(20):
            await world.ask(commit_request(number, group=f"group-{number}"), 8)
        coordinators = world.groups.statistics.coordinators
        assert sum(coordinator.groups for coordinator in coordinators) == 20
        assert world.groups.statistics.timers == len(coordinators) > 1
        assert world.groups.statistics.bytes_used > 20_000
        assert await committed(world, "group-7") == {("flights", 0): 7}

    told(story)


def test_the_number_of_partitions_is_asked_for_once_and_not_after_the_end() -> None:
    """Asking creates ``__consumer_offsets``, which a broker that closes must not do."""

    async def story(world: GroupsWorld) -> None:
        logs, asked = world.groups._logs, []
        real_count = logs.partition_count

        async def partition_count() -> int:
            asked.append(True)
            return await real_count()

        logs.partition_count = partition_count
        for number in range(3):
            await world.ask(commit_request(number), 8)
        assert len(asked) == 1
        await world.groups.close()
        response = await world.ask(commit_request(4), 8)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert len(asked) == 1

    run(story)


def test_groups_that_end_before_they_were_asked_anything_create_no_topic() -> None:
    async def story(world: GroupsWorld) -> None:
        async def partition_count() -> int:
            raise AssertionError("the topic would be created")

        world.groups._logs.partition_count = partition_count
        world.groups.end_waits()
        response = await world.ask(commit_request(1), 8)
        assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR

    run(story)
