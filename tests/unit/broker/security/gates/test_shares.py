"""Rights that are taken away from a member of a share group while its fetch waits."""

import asyncio

import pytest

from siltstone.metadata.acls import CreateAcls, DeleteAcls
from siltstone.model.acls import AclOperation, AclResourceType
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.engine.engine_world import settled
from support.groups.share_client import LOCK_MS, SHARES, ShareClient, code_of, shared_topic
from support.kafka.kafka_requests import batch_of, produce_request
from support.scenarios import scenario
from support.security.rights import ROOT, STRANGER, allow, client_of, switch

READ, TOPIC, GROUP = AclOperation.READ, AclResourceType.TOPIC, AclResourceType.GROUP


@pytest.mark.parametrize(("lost", "code"), [(TOPIC, 29), (GROUP, None)])
@scenario(in_broker_world)
async def test_ac07_a_share_fetch_that_waits_gets_nothing_after_its_right_is_taken_away(
    world: BrokerWorld, lost: AclResourceType, code: int | None
) -> None:
    topic = await shared_topic(world)
    rights = {TOPIC: allow(READ, TOPIC, topic.name), GROUP: allow(READ, GROUP, SHARES)}
    await switch(world, *rights.values())
    member = ShareClient(world, topic)
    member.client.connection.principal = STRANGER
    assert await member.fetch() == []
    waiting = asyncio.ensure_future(member.fetch(max_wait_ms=LOCK_MS // 2))
    await settled()
    await world.parts.metadata.execute(DeleteAcls((rights[lost],)))
    await client_of(world, ROOT).ask(produce_request(topic, batch_of(3)))
    assert await waiting == []
    assert [row.records for each in member.told.topics for row in each.partitions if row.records] == []
    if code is not None:
        assert code_of(member.told)[0] == code
    await world.parts.metadata.execute(CreateAcls((rights[lost],)))
    other = ShareClient(world, topic, "other")
    other.client.connection.principal = STRANGER
    assert await other.fetch() == [(0, 2, 2)], "nobody waits for the end of a lock"
