"""What retention knows of registered groups whose offsets are committed in transactions: never more than is decided."""

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from support.broker.backlog_world import PROGRESS_MS, commit, mirrored_offset, pass_long, registered_topic
from support.broker.broker_world import in_broker_world
from support.broker.transaction_clients import NONE, offset_of, started
from support.scenarios import scenario

OUTCOMES = pytest.mark.parametrize("commits", [True, False])


@OUTCOMES
@scenario(in_broker_world)
async def test_tg17_a_pending_offset_counts_when_its_transaction_is_committed(world, commits) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 5)
    client = await started(world)
    await client.send_offsets("g", "t", p0=9)
    await pass_long(world, 2 * PROGRESS_MS)
    assert mirrored_offset(world, "g", topic) == 5
    assert await client.end(commits) is NONE
    await pass_long(world, PROGRESS_MS)
    assert mirrored_offset(world, "g", topic) == (9 if commits else 5)


@OUTCOMES
@scenario(in_broker_world)
async def test_tg18_a_transaction_that_moves_an_offset_back_moves_the_mirror_first(world, commits) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 9)
    await pass_long(world, PROGRESS_MS)
    assert mirrored_offset(world, "g", topic) == 9
    client = await started(world)
    await client.send_offsets("g", "t", p0=4)
    assert mirrored_offset(world, "g", topic) == 4, "before the transaction ends, and so before it is seen"
    assert await offset_of(world, "g", "t") is ErrorCode.UNSTABLE_OFFSET_COMMIT
    await pass_long(world, 2 * PROGRESS_MS)
    assert mirrored_offset(world, "g", topic) == 4
    assert await client.end(commits) is NONE
    await pass_long(world, PROGRESS_MS)
    assert mirrored_offset(world, "g", topic) == (4 if commits else 9)


@scenario(in_broker_world)
async def test_tg18_nor_is_it_ahead_when_the_broker_has_read_its_log(world) -> None:
    topic = await registered_topic(world, "g")
    await commit(world, "g", 9)
    await pass_long(world, PROGRESS_MS)
    client = await started(world)
    await client.send_offsets("g", "t", p0=4)
    await world.crash()
    await pass_long(world, 2 * PROGRESS_MS)
    assert mirrored_offset(world, "g", topic) == 4
