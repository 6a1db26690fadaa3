"""A marker that cannot be read any more, because its object is damaged: row TP48 of docs/scenarios.md."""

import pytest

from siltstone.broker.partitions.transaction_state import TransactionEnding
from siltstone.broker.topics.names import OFFSETS_TOPIC
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker
from siltstone.model.limits import TRANSACTION_HANGS_AFTER_MS, TRANSACTION_TIMEOUT_MS_MAX
from siltstone.model.serving_limits import HIDDEN_MARKER_CHECK_INTERVAL_MS
from support.broker.broker_world import in_broker_world
from support.broker.transaction_clients import (
    NONE,
    ends,
    offset_of,
    started,
)
from support.engine.objects import index_of
from support.kafka.kafka_requests import batches_in, fetch_request, row_of
from support.scenarios import scenario

CHECK_MS = HIDDEN_MARKER_CHECK_INTERVAL_MS


async def flushed(world) -> str:
    """Uploads all that there is. Returns the key of the newest object."""
    before = {each.key for each in world.world.store.list()}
    await world.parts.engine.flush()
    (key,) = {each.key for each in world.world.store.list()} - before
    return key


def damage(world, key: str, stream_id: int) -> None:
    """Changes a byte of the stream's first block in the object, and leaves the blocks of other streams as they are."""
    store = world.world.store
    data = bytearray(store.get_range(key, 0, store.head(key).size_bytes))
    entry = next(each for each in index_of(bytes(data)) if each.stream_id == stream_id)
    data[entry.end_position - 1] ^= 1
    store.delete([key])
    store.put(key, [bytes(data)])


async def hidden(world, *, generation: int = 2, commits: bool = True, count: int = 1):
    """A transaction in three partitions, with its data in one object and its markers in another. The marker of the
    first partition is damaged, and the broker is killed."""
    topic = await world.topic(partitions=3)
    client = await started(world, generation)
    await client.send(topic, 0, 1, 2, count=count)
    await flushed(world)
    assert await client.end(commits) is NONE
    stream_id = world.opened(topic).stream_id
    damage(world, await flushed(world), stream_id)
    await world.crash()
    client.client = world.client()
    return topic, client


@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("generation", [1, 2])
@scenario(in_broker_world)
async def test_tp48_a_marker_that_damage_hides_ends_in_an_abort_and_a_finding(
    world, generation, commits, caplog
) -> None:
    topic, client = await hidden(world, generation=generation, commits=commits)
    assert await ends(world, topic) == (0, 2), "nobody writes the marker again"
    await world.pass_ms(CHECK_MS)
    assert await ends(world, topic) == (3, 3)
    assert world.opened(topic).transactions.aborted.between(0, 3)[0].marker_offset == 2
    assert "t-0: the transaction of producer" in caplog.text and "it is aborted here" in caplog.text
    assert world.broker.hidden_markers.aborted == 1
    assert [await ends(world, topic, index) for index in (1, 2)] == [(2, 2)] * 2
    await world.pass_ms(CHECK_MS)
    assert await ends(world, topic) == (3, 3), "once"
    await client.send(topic, 0)
    assert await client.end() is NONE
    assert await ends(world, topic) == (5, 5)
    row = row_of(await world.client().ask(fetch_request(topic, {0: 3}, isolation_level=1)))
    assert batches_in(row) == [(3, 3), (4, 4)]


@scenario(in_broker_world)
async def test_tp48_a_transaction_that_is_under_way_gets_the_marker_of_its_coordinator(world, caplog) -> None:
    """Damage among the batches of a transaction hides none of its markers."""
    topic = await world.topic()
    client = await started(world)
    await client.send(topic)
    await flushed(world)
    await client.send(topic)
    damage(world, await flushed(world), world.opened(topic).stream_id)
    await world.crash()
    client.client = world.client()
    assert await ends(world, topic) == (0, 2)
    await world.pass_ms(CHECK_MS)
    assert await ends(world, topic) == (0, 2)
    assert world.opened(topic).transactions.in_doubt(0) == [], "it is asked about once"
    assert await client.end() is NONE
    assert await ends(world, topic) == (3, 3)
    assert not world.opened(topic).transactions.aborted.between(0, 3)
    assert world.broker.hidden_markers.aborted == 0


@scenario(in_broker_world)
async def test_tp48_nothing_is_guessed_while_the_coordinator_does_not_answer(world, monkeypatch) -> None:
    topic, _ = await hidden(world)
    answers = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    async def open_of(*_: object) -> ErrorCode:
        return answers.pop(0) if answers else ErrorCode.INVALID_PRODUCER_ID_MAPPING

    monkeypatch.setattr(world.broker.hidden_markers, "_open_of", open_of)
    assert await ends(world, topic) == (0, 2)
    for stable in (0, 0, 3):
        await world.pass_ms(CHECK_MS)
        assert (await ends(world, topic))[0] == stable


@scenario(in_broker_world)
async def test_tp48_a_marker_that_comes_while_the_coordinator_is_asked_ends_the_transaction(
    world, monkeypatch
) -> None:
    topic, client = await hidden(world)
    assert await ends(world, topic) == (0, 2)

    async def open_of(*_: object) -> ErrorCode:
        marker = TransactionMarker(Outcome.COMMIT, 9)
        world.opened(topic).append_marker(TransactionEnding(client.pid, client.epoch, marker, True, 7))
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING

    monkeypatch.setattr(world.broker.hidden_markers, "_open_of", open_of)
    await world.pass_ms(CHECK_MS)
    assert await ends(world, topic) == (3, 3)
    assert not world.opened(topic).transactions.aborted.between(0, 3)
    assert world.broker.hidden_markers.aborted == 0


@scenario(in_broker_world)
async def test_tp48_a_leader_that_finds_the_transaction_in_a_snapshot_asks_when_no_time_out_can_be_that_long(
    world,
) -> None:
    topic, _ = await hidden(world)
    assert await ends(world, topic) == (0, 2)
    await world.opened(topic).write_snapshot()
    await world.crash()  # before the coordinator was asked; the snapshot hides that there is damage
    assert await ends(world, topic) == (0, 2)
    await world.pass_ms(CHECK_MS)
    assert await ends(world, topic) == (0, 2)
    for _ in range(2):
        await world.pass_ms(TRANSACTION_TIMEOUT_MS_MAX + TRANSACTION_HANGS_AFTER_MS)
    assert await ends(world, topic) == (3, 3)


@scenario(in_broker_world)
async def test_tp48_groups_whose_log_is_damaged_wait_until_it_is_restored(world, caplog) -> None:
    """Then they read the marker, and what is written here ends nothing of theirs."""
    topic = await world.topic()
    client = await started(world)
    await client.send_offsets("g", topic.name, p0=7)
    await flushed(world)
    assert await client.end() is NONE
    offsets = world.parts.topics.by_name(OFFSETS_TOPIC)
    ((index, partition),) = [
        (key[1], opened) for key, opened in world.parts.partitions.all_opened()
        if key[0] == offsets.id and opened.next_offset
    ]  # fmt: skip
    key = await flushed(world)
    intact = world.world.store.get_range(key, 0, world.world.store.head(key).size_bytes)
    damage(world, key, partition.stream_id)
    await world.crash()
    await world.partition(offsets, index)
    for _ in range(3):
        await world.pass_ms(CHECK_MS)
    assert caplog.text.count("stays open for now") == 1
    assert world.broker.hidden_markers.aborted == 0
    world.world.store.delete([key])
    world.world.store.put(key, [intact])
    for _ in range(3):
        await world.pass_ms(CHECK_MS)
    assert await offset_of(world, "g", topic.name) == 7
    assert (await ends(world, offsets, index)) == (3, 3)
