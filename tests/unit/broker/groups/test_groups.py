"""Several coordinators behind one front."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from siltstone.broker.groups.groups import partition_of_group
from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.rules.requests import TopicPartition
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from siltstone.kafka_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from siltstone.model.errors import Unavailable
from siltstone.model.serving_limits import COORDINATOR_LOAD_WAIT_MS
from support.groups.group_client import commit_request, committed
from support.groups.group_logs import MemoryGroupLogs
from support.groups.groups_world import GroupsWorld, closed, run, turns
from support.scenarios import scenario


def told(story, partition_count: int = 8) -> None:  # type: ignore[no-untyped-def]
    async def run_it() -> None:
        world = GroupsWorld(logs=MemoryGroupLogs(partition_count))
        await story(world)
        await closed(world)

    asyncio.run(run_it())


@scenario(told)
async def test_each_group_lives_in_the_partition_that_kafka_says(world: GroupsWorld) -> None:
    for number in range(20):
        await world.ask(commit_request(number, group=f"group-{number}"), 8)
    for number in range(20):
        partition = partition_of_group(f"group-{number}", 8)
        keys = b"".join(record[0] for _, record in world.logs.logs[partition].records)
        assert f"group-{number}".encode() in keys
    assert sum(len(log.records) for log in world.logs.logs) == 20


@scenario(told)
async def test_only_partitions_that_are_asked_for_are_loaded_unless_started(world: GroupsWorld) -> None:
    await world.ask(commit_request(1), 8)
    await turns()
    assert sum(log.reads for log in world.logs.logs) == 1
    await world.groups.start()
    await turns()
    assert [log.reads for log in world.logs.logs] == [1] * 8


def code_of(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


@scenario(told)
async def test_the_first_request_of_all_is_answered_while_the_offsets_topic_cannot_be_created(
    world: GroupsWorld,
) -> None:
    """As while the metadata are locked, for half a minute: the client asks again, and has a connection to ask on."""
    world.logs.counting.clear()
    for _ in range(3):
        committing = await world.begin(commit_request(1), 8)
        await world.pass_ms(COORDINATOR_LOAD_WAIT_MS - 1)
        assert not committing.done()
        await world.pass_ms(1, steps=1)
        assert code_of(committing.result()) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.logs.counting.set()
    assert code_of(await world.ask(commit_request(1), 8)) == ErrorCode.NONE
    assert world.logs.counted == 1


@scenario(told)
async def test_a_list_is_of_all_partitions_loaded_for_it(world: GroupsWorld) -> None:
    for number in range(20):
        await world.ask(commit_request(number, group=f"group-{number}"), 8)
    world.restart()
    listed = await world.ask(ListGroupsRequest(), 5)
    assert {group.group_id for group in listed.groups} == {f"group-{number}" for number in range(20)}


@scenario(told)
async def test_a_list_is_whole_or_an_error(world: GroupsWorld) -> None:
    world.logs.logs[3].reading.clear()
    listing = await world.begin(ListGroupsRequest(), 5)
    await world.pass_ms(600)
    assert listing.result().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert listing.result().groups == []


@scenario(told)
async def test_one_damaged_partition_is_no_trouble_to_the_groups_of_others(world: GroupsWorld) -> None:
    damaged = partition_of_group("damaged", 8)
    world.logs.logs[damaged].records.append((0, (b"\x00\x01\x00", None)))
    sound = next(f"group-{n}" for n in range(99) if partition_of_group(f"group-{n}", 8) != damaged)
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=None) for group in ("damaged", sound)]
    )
    response = await world.ask(request, 8)
    codes = [group.error_code for group in response.groups]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]


@scenario(told)
async def test_without_the_topic_of_offsets_clients_come_again(
    world: GroupsWorld, caplog: pytest.LogCaptureFixture
) -> None:
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


@scenario(told)
async def test_member_ids_are_unlike_one_another_and_begin_with_whose_they_are(world: GroupsWorld) -> None:
    ids = {world.groups.new_member_id("dash") for _ in range(100)}
    assert len(ids) == 100
    uuid = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert all(re.fullmatch(f"dash-{uuid}", member_id) for member_id in ids)
    longest = world.groups.new_member_id("世" * 32_767)
    assert re.fullmatch(f"世+-{uuid}", longest) and len(longest.encode()) <= 32_767


@scenario(run)
async def test_after_the_end_there_is_no_coordinator(world: GroupsWorld) -> None:
    await world.groups.close()
    response = await world.ask(commit_request(1), 8)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert world.groups.statistics.timers == 0


@scenario(told)
async def test_groups_of_all_partitions_share_one_limit_and_one_heap(world: GroupsWorld) -> None:
    for number in range(20):
        await world.ask(commit_request(number, group=f"group-{number}"), 8)
    coordinators = world.groups.statistics.coordinators
    assert sum(coordinator.groups for coordinator in coordinators) == 20
    assert world.groups.statistics.timers == len(coordinators) > 1
    assert world.groups.statistics.bytes_used > 20_000
    assert await committed(world, "group-7") == {("flights", 0): 7}


@scenario(run)
async def test_the_number_of_partitions_is_asked_for_once_and_not_after_the_end(world: GroupsWorld) -> None:
    """Asking creates ``__consumer_offsets``, which a broker that closes must not do."""
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


@scenario(run)
async def test_groups_that_end_before_they_were_asked_anything_create_no_topic(world: GroupsWorld) -> None:
    async def partition_count() -> int:
        raise AssertionError("the topic would be created")

    world.groups._logs.partition_count = partition_count
    world.groups.end_waits()
    response = await world.ask(commit_request(1), 8)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


# -- what retention counts on ----------------------------------------------------------------------------


class FakeProgress:
    """The progress that retention knows; ``trouble`` is raised when a group's offsets become others."""

    def __init__(self, *, has_counted: bool = True, trouble: Exception | None = None) -> None:
        self.acts: list[Any] = []
        self._has_counted = has_counted
        self._trouble = trouble

    @asynccontextmanager
    async def holding_back(self, group: str, offsets: Mapping[TopicPartition, int]) -> AsyncIterator[None]:
        if self._trouble is not None:
            raise self._trouble
        self.acts.append((group, dict(offsets)))
        yield
        self.acts.append("held")

    def has_counted(self, group: str) -> bool:
        return self._has_counted

    async def let_go(self, group: str) -> None:
        self.acts.append(group)


@pytest.mark.parametrize("trouble", [None, Unavailable("the metadata log is away")])
@scenario(run)
async def test_offsets_move_while_retention_holds_back_or_not_at_all(
    world: GroupsWorld, trouble: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    progress = FakeProgress(trouble=trouble)
    world.groups._progress = progress
    response = await world.ask(commit_request(5), 8)
    code = response.topics[0].partitions[0].error_code
    if trouble is None:
        assert code == ErrorCode.NONE
        assert progress.acts == [("readers", {("flights", 0): 5}), "held"]
        assert await committed(world) == {("flights", 0): 5}
    else:
        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await committed(world) == {} and "the metadata log is away" in caplog.text


@pytest.mark.parametrize("has_counted", [True, False])
@pytest.mark.parametrize("group", ["there", "gone", "damaged"])
@scenario(run)
async def test_a_deleted_group_is_let_go_once_it_is_certain_that_it_is_gone(
    world: GroupsWorld, group: str, has_counted: bool
) -> None:
    if group == "there":
        await world.ask(commit_request(5, group=group), 8)
    if group == "damaged":
        world.log.records.append((0, (b"\x00\x01\x00", None)))
    progress = FakeProgress(has_counted=has_counted)
    world.groups._progress = progress
    (deleted,) = (await world.ask(DeleteGroupsRequest(groups_names=[group]), 2)).results
    expected = {"there": ErrorCode.NONE, "gone": ErrorCode.GROUP_ID_NOT_FOUND}
    assert deleted.error_code == expected.get(group, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    is_let_go = group == "there" or (group == "gone" and has_counted)
    assert progress.acts == ([group] if is_let_go else [])


@scenario(run)
async def test_who_does_not_wait_sees_what_is_loaded_and_nothing_before(world: GroupsWorld) -> None:
    def offset(known: KnownGroup | None) -> int:
        return -1 if known is None else known.offsets["flights", 0].offset

    assert world.groups.look_at_once("readers", offset) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await world.ask(commit_request(5), 8)
    seen = world.groups.look_at_once("readers", offset)
    assert not isinstance(seen, ErrorCode) and await seen == 5
    nobody = world.groups.look_at_once("nobody", offset)
    assert not isinstance(nobody, ErrorCode) and await nobody == -1
    assert await world.groups.look("readers", offset) == 5
    world.groups.end_waits()
    assert await world.groups.look("readers", offset) is ErrorCode.NOT_COORDINATOR


@scenario(told)
async def test_all_are_looked_at_or_an_error_is_the_answer(world: GroupsWorld) -> None:
    for number in range(5):
        await world.ask(commit_request(number, group=f"group-{number}"), 8)
    names = await world.groups.look_at_all(lambda known: known.group.group_id)
    assert not isinstance(names, ErrorCode) and sorted(names) == [f"group-{number}" for number in range(5)]
    world.groups.end_waits()
    assert await world.groups.look_at_all(lambda known: known) is ErrorCode.NOT_COORDINATOR


@scenario(told)
async def test_the_offsets_of_a_deleted_topic_go_from_the_groups_of_all_partitions(
    world: GroupsWorld,
) -> None:
    for number in range(5):
        await world.ask(commit_request(number, group=f"group-{number}"), 8)
    await world.groups.forget_topic("flights")
    assert [await committed(world, f"group-{number}") for number in range(5)] == [{}] * 5
