"""Logins of other kinds than by SASL in the audit, and offsets that are set by hand in a transaction."""

import asyncio
from functools import partial

import pytest

from siltstone.broker.request import Listener
from siltstone.broker.security.audit.offsets import groups_changed, offset_events
from siltstone.broker.security.sasl.plain import PasswordClaim
from siltstone.kafka_protocol.messages import txn_offset_commit as commits
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.model.access import Principal, SecurityProtocol
from siltstone.model.secret import Secret
from siltstone.server.admin.users import BrokerUsers
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.engine.engine_world import settled
from support.scenarios import scenario
from support.security.audit import audited, fields_of
from support.security.credentials import users_command
from unit.broker.security.audit.test_trail import ALL, CHANGES, MADE_UP, PASSWORD, passes

LOGIN = ("outcome", "principal", "host", "listener", "operation", "rule", "count")
OWNER = Principal("CN=svc-1,O=Acme")
TLS = Listener("TLS", "kafka.example", 9093, SecurityProtocol.SSL)


@scenario(partial(in_broker_world, settings=ALL))
async def test_au03_the_owner_of_a_certificate_logs_in_once_for_each_connection(world: BrokerWorld) -> None:
    for _ in range(2):
        client = world.client(TLS)
        client.connection.principal = OWNER
        for _ in range(3):
            await client.ask(MetadataRequest(topics=[]))
    await world.client(TLS).ask(MetadataRequest(topics=[]))  # without a certificate
    await passes(world)
    assert [fields_of(each, LOGIN) for each in await audited(world.parts)] == [
        ("succeeded", str(OWNER), "client.example", "TLS", "TLS", "", 2)
    ]


@scenario(partial(in_broker_world, settings=CHANGES))
async def test_au02_changes_alone_have_no_owners_of_certificates(world: BrokerWorld) -> None:
    client = world.client(TLS)
    client.connection.principal = OWNER
    await client.ask(MetadataRequest(topics=[]))
    await passes(world)
    assert await audited(world.parts) == []


@scenario(partial(in_broker_world, settings=ALL))
async def test_au03_passwords_at_the_admin_listener_are_there_when_they_are_checked(
    world: BrokerWorld,
) -> None:
    await world.parts.metadata.execute(users_command(ada=PASSWORD))
    users = BrokerUsers(world.broker, world.clock, world.world.rng)
    for name, password in (("ada", PASSWORD), ("ada", PASSWORD), ("ada", "wrong"), (MADE_UP, "wrong")):
        asking = asyncio.ensure_future(users.principal_of("10.1.2.3", PasswordClaim(name, Secret(password))))
        await settled()
        while not asking.done():
            await world.pass_ms(100)
    await passes(world)
    wrong = "the password is wrong, or there is no such user"
    records = await audited(world.parts)
    assert sorted(fields_of(each, LOGIN) for each in records) == [
        ("failed", "", "10.1.2.3", "ADMIN", "BASIC", wrong, ""),
        ("failed", "User:ada", "10.1.2.3", "ADMIN", "BASIC", wrong, ""),
        ("succeeded", "User:ada", "10.1.2.3", "ADMIN", "BASIC", "", ""),
    ]
    assert MADE_UP not in str(records) and PASSWORD not in str(records)


@pytest.mark.parametrize(("generation", "member"), [(3, "m"), (-1, "m"), (3, "")])
def test_a_member_that_commits_in_a_transaction_is_no_event(generation: int, member: str) -> None:
    request = commits.TxnOffsetCommitRequest(group_id="g", generation_id=generation, member_id=member)
    assert groups_changed(request) == []


def test_au03_offsets_that_are_set_by_hand_in_a_transaction_count_when_it_is_committed() -> None:
    asked = [
        commits.TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=index + 5)
        for index in range(3)
    ]
    request = commits.TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        topics=[commits.TxnOffsetCommitRequestTopic(name="t", partitions=asked)],
    )
    rows = [
        commits.TxnOffsetCommitResponsePartition(partition_index=index, error_code=code)
        for index, code in ((0, 0), (1, 29), (2, 0))
    ]
    response = commits.TxnOffsetCommitResponse(
        topics=[commits.TxnOffsetCommitResponseTopic(name="t", partitions=rows)]
    )
    assert groups_changed(request) == ["g"]
    (event,) = offset_events(request, response, {"g": {("t", 0): 2, ("t", 1): 2}}, {})
    assert (event.operation, event.resource) == ("RESET", "group g")
    assert (event.before, event.after) == ("t-0=2", "t-0=5, t-2=7, if the transaction is committed")
