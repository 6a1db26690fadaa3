"""The audit of a broker: who did what, with what came before and after, and never a secret."""

import json
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.broker.security.audit.gathering import KINDS_MAX, RECORDS_PER_SECOND_MAX, AuditGathering
from siltstone.broker.settings import BrokerSettings
from siltstone.foundation.scram import salted_password
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages import alter_client_quotas as quotas
from siltstone.kafka_protocol.messages import alter_user_scram_credentials as scram
from siltstone.kafka_protocol.messages import create_acls, delete_acls, delete_records
from siltstone.kafka_protocol.messages import incremental_alter_configs as configs
from siltstone.kafka_protocol.messages import offset_commit as commits
from siltstone.kafka_protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from siltstone.kafka_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from siltstone.kafka_protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.kafka_protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsTopic
from siltstone.kafka_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from siltstone.kafka_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from siltstone.kafka_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.metadata.changes import AuditNote, note_command
from siltstone.metadata.commands import FinishJob, PutKey, StartJob
from siltstone.metadata.store.port import LogUnavailable
from siltstone.model.access import NODE, Principal
from siltstone.model.acls import AclOperation, AclResourceType, AuthorizationMode, PatternType, Permission
from siltstone.model.audit import AUDIT_TOPIC, AuditEvent, AuditKind, AuditLevel
from support.broker.broker_cluster import BrokerCluster, in_broker_cluster
from support.broker.broker_world import BrokerWorld, Client, in_broker_world
from support.scenarios import scenario
from support.security.audit import CHANGED, WHO, audited, fields_of
from support.security.credentials import users_command
from support.security.rights import STRANGER, client_of, switch
from unit.broker.security.test_authenticator import SECURE

ALL = BrokerSettings(audit=AuditLevel.ALL)
CHANGES = BrokerSettings(audit=AuditLevel.CHANGES)
PASSWORD = "pl4nted-password"
MADE_UP = "pl4nted-as-a-name"
PAST_A_WINDOW_MS = 12_000


async def passes(world: BrokerWorld, duration_ms: int = PAST_A_WINDOW_MS) -> None:
    for _ in range(0, duration_ms, 1_000):
        await world.pass_ms(1_000)


async def logs_in(world: BrokerWorld, user: str, password: str = PASSWORD, host: str = "10.1.2.3") -> Client:
    client = world.client(SECURE)
    client.connection.client_host = host
    await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    asked = client.send(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 1)
    while not asked.done():
        await world.pass_ms(100)
    return client


def altered(name: str, **values: str) -> configs.IncrementalAlterConfigsRequest:
    return configs.IncrementalAlterConfigsRequest(
        resources=[
            configs.AlterConfigsResource(
                resource_type=2,
                resource_name=name,
                configs=[
                    configs.AlterableConfig(name=key.replace("_", "."), value=value)
                    for key, value in values.items()
                ],
            )
        ]
    )


def reset(group: str, offset: int) -> commits.OffsetCommitRequest:
    return commits.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[
            commits.OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    commits.OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata="not for the audit"
                    )
                ],
            )
        ],
    )


@scenario(partial(in_broker_world, settings=CHANGES))
async def test_au03_each_change_is_there_once_with_who_before_and_after(world: BrokerWorld) -> None:
    await switch(world)
    root = client_of(world, Principal("root"))
    root.connection.client_host = "127.0.0.1"
    upsertion = scram.ScramCredentialUpsertion(
        name="ada", mechanism=2, iterations=4096, salt=b"s" * 16,
        salted_password=salted_password("sha512", PASSWORD.encode(), b"s" * 16, 4096),
    )  # fmt: skip
    binding: dict[str, Any] = {
        "resource_type": AclResourceType.TOPIC, "resource_name": "t", "principal": "User:ada", "host": "*",
        "operation": AclOperation.READ, "permission_type": Permission.ALLOW,
    }  # fmt: skip
    await root.ask(
        CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    )
    for _ in range(2):  # the second changes nothing
        await root.ask(altered("t", retention_ms="1000"))
    await root.ask(altered("t", retention_ms="2000"))
    await root.ask(
        CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)])
    )
    await root.ask(scram.AlterUserScramCredentialsRequest(upsertions=[upsertion]))
    await root.ask(
        create_acls.CreateAclsRequest(
            creations=[create_acls.AclCreation(resource_pattern_type=PatternType.LITERAL, **binding)] * 2
        )
    )
    await root.ask(
        quotas.AlterClientQuotasRequest(
            entries=[
                quotas.QuotaAlteration(
                    entity=[quotas.QuotaAlterationEntity(entity_type="user", entity_name="ada")],
                    ops=[quotas.QuotaOperation(key="producer_byte_rate", value=1000.0)],
                )
            ]
        )
    )
    await root.ask(reset("g", 5), 9)
    await root.ask(reset("g", 7), 9)
    await root.ask(DeleteGroupsRequest(groups_names=["g", "no-such-group"]))
    await root.ask(
        delete_acls.DeleteAclsRequest(
            filters=[
                delete_acls.DeleteAclsFilter(
                    resource_type_filter=AclResourceType.TOPIC, resource_name_filter="t",
                    pattern_type_filter=PatternType.LITERAL, principal_filter=None, host_filter=None,
                    operation=AclOperation.ANY, permission_type=Permission.ANY,
                )
            ]
        )
    )  # fmt: skip
    await root.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]))
    await passes(world)
    records = await audited(world.parts)
    rule = "ALLOW User:ada from *: READ on TOPIC t"
    assert sorted(fields_of(each, CHANGED) for each in records) == sorted([
        ("topic", "CREATE", f"topic {name}", "", after)
        for name, after in (("t", "partitions=1"),)
    ] + [
        ("config", "ALTER_CONFIGS", "topic t", "", "retention.ms=1000"),
        ("config", "ALTER_CONFIGS", "topic t", "retention.ms=1000", "retention.ms=2000"),
        ("topic", "ALTER", "topic t", "partitions=1", "partitions=3"),
        ("user", "CREATE", "user ada", "", "SCRAM-SHA-512 rounds=4096"),
        ("acl", "CREATE", "topic t", "", rule),
        ("acl", "DELETE", "topic t", rule, ""),
        ("quota", "ALTER", "user ada", "", "producer_byte_rate=1000"),
        ("offsets", "RESET", "group g", "", "t-0=5"),
        ("offsets", "DELETE", "group g", "t-0=7", ""),
        ("topic", "DELETE", "topic t", "partitions=3, retention.ms=2000", ""),
        ("topic", "CREATE", "topic __consumer_offsets", "",
         "partitions=50, cleanup.policy=compact, compression.type=producer, segment.bytes=104857600"),
    ])  # fmt: skip
    assert {fields_of(each, WHO)[:3] for each in records} == {("User:root", "127.0.0.1", "PLAINTEXT")}
    assert {each["api"] for each in records if each["event"] == "acl"} == {"CreateAcls", "DeleteAcls"}
    assert [each.get("count") for each in records if each.get("operation") == "RESET"] == [2]
    assert PASSWORD not in json.dumps(records) and "not for the audit" not in json.dumps(records)


@scenario(partial(in_broker_world, settings=ALL))
async def test_au02_a_flood_of_failed_logins_is_one_record_and_a_change_is_there(world: BrokerWorld) -> None:
    """Made-up names make no kinds, and what is typed as a name may be a password: it is not written."""
    await world.parts.metadata.execute(users_command(ada=PASSWORD))
    trail = world.broker.trail
    connection = world.client(SECURE).connection
    for host in range(10_000):
        connection.client_host = f"10.1.2.{host % 256}"
        trail.login_failed(
            connection, "PLAIN", "the password is wrong, or there is no such user", "nobody", ()
        )
    await logs_in(world, MADE_UP)
    await logs_in(world, "ada", "wrong")
    await logs_in(world, "ada")
    await client_of(world).ask(altered("t"))
    await client_of(world).ask(
        CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    )
    await passes(world)
    found = [
        fields_of(each, ("event", "outcome", "principal", "count")) for each in await audited(world.parts)
    ]
    assert sorted(found, key=str) == [
        ("login", "failed", "", 10_001),
        ("login", "failed", "User:ada", ""),
        ("login", "succeeded", "User:ada", ""),
        ("topic", "done", "User:s", ""),
    ]
    assert MADE_UP not in str(await audited(world.parts))


@pytest.mark.parametrize("level", [ALL, CHANGES], ids=["all", "changes"])
def test_au03_a_certificate_that_is_refused_is_a_failed_login_of_nobody(level: BrokerSettings) -> None:
    async def scenario_of(world: BrokerWorld) -> None:
        for _ in range(3):
            world.broker.certificate_refused(
                "SECURE", "10.1.2.3", "the client's certificate is refused: expired"
            )
        await passes(world)
        names = ("event", "outcome", "principal", "host", "listener", "operation", "rule", "count")
        found = [fields_of(each, names) for each in await audited(world.parts)]
        row = ("login", "failed", "", "10.1.2.3", "SECURE", "TLS")
        expected = [(*row, "the client's certificate is refused: expired", 3)]
        assert found == (expected if level is ALL else [])

    in_broker_world(scenario_of, level)


@scenario(partial(in_broker_world, settings=ALL))
async def test_ob08_refusals_by_name_are_records_and_what_was_left_out_of_a_list_is_none(
    world: BrokerWorld,
) -> None:
    await switch(world)
    client = client_of(world, STRANGER)
    for _ in range(3):
        await client.ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name="t")]))
    await client.ask(MetadataRequest(topics=None))
    await passes(world)
    (record,) = [each for each in await audited(world.parts) if each["event"] == "denied"]
    assert fields_of(record, ("outcome", "principal", "api", "operation", "resource", "rule", "count")) == (
        "refused", "User:s", "ListOffsets", "DESCRIBE", "topic t", "no ACL allows it", 3,
    )  # fmt: skip


@scenario(partial(in_broker_world, settings=ALL))
async def test_ob08_a_flood_of_names_is_a_hundred_records_a_second(world: BrokerWorld) -> None:
    await switch(world)
    client = client_of(world, STRANGER)
    for start in range(0, 3_000, 500):
        await client.ask(
            MetadataRequest(topics=[MetadataRequestTopic(name=f"t{n}") for n in range(start, start + 500)])
        )
    await passes(world, 30_000)
    records = await audited(world.parts)
    assert len(records) == KINDS_MAX + 1
    assert sum(each.get("count", 1) for each in records) == 3_000
    assert RECORDS_PER_SECOND_MAX * 10 >= KINDS_MAX


@scenario(partial(in_broker_world, settings=CHANGES))
async def test_au02_changes_only_have_no_logins_and_no_refusals(world: BrokerWorld) -> None:
    await world.parts.metadata.execute(users_command(ada=PASSWORD))
    await switch(world)
    await logs_in(world, "ada")
    await client_of(world, STRANGER).ask(ListOffsetsRequest(topics=[ListOffsetsTopic(name="t")]))
    await passes(world)
    assert await audited(world.parts) == []


@scenario(in_broker_world)
async def test_au03_the_audit_is_off_by_default(world: BrokerWorld) -> None:
    await client_of(world).ask(
        CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    )
    await passes(world)
    assert world.parts.topics.by_name(AUDIT_TOPIC) is None


# -- what no request of this node has done -------------------------------------------------------------------------


@scenario(partial(in_broker_world, settings=CHANGES))
async def test_au03_a_note_of_a_command_without_a_broker_is_written_once_and_removed(
    world: BrokerWorld,
) -> None:
    metadata = world.parts.metadata
    event = AuditEvent(event=AuditKind.MODE, resource="authorization", principal="OS:ops", host="desk")
    await metadata.execute(note_command("a", AuditNote(1_700_000_000_123, event)))
    await metadata.execute(PutKey("audit-note/broken", b"{"))
    await passes(world, 3_000)
    (record,) = await audited(world.parts)
    assert fields_of(record, ("time", "event", "principal", "host")) == (
        "2023-11-14T22:13:20.123Z", "mode", "OS:ops", "desk",
    )  # fmt: skip
    await passes(world, 3_000)
    assert len(await audited(world.parts)) == 1
    assert [key for key in metadata.image.keys if key.startswith("audit-note/")] == ["audit-note/broken"]


@scenario(partial(in_broker_world, settings=CHANGES))
async def test_au03_runs_of_maintenance_are_there(world: BrokerWorld) -> None:
    metadata = world.parts.metadata
    await passes(world, 2_000)
    job = await metadata.execute(StartJob("sweep", "desk process 7", 60_000, "sweep the bucket"))
    await passes(world, 2_000)
    await metadata.execute(FinishJob(job, succeeded=True, report="3 objects"))
    await passes(world, 2_000)
    found = [
        fields_of(each, ("event", "outcome", "principal", "operation", "after"))
        for each in await audited(world.parts)
    ]
    assert found == [
        ("maintenance", "started", "process desk process 7", "SWEEP", ""),
        ("maintenance", "succeeded", "process desk process 7", "SWEEP", "3 objects"),
    ]


# -- who writes it -------------------------------------------------------------------------------------------------


def batch_for(name: str, topic_id: bytes = b"") -> ProduceRequest:
    batch = bytes(build_batch([Record(timestamp_ms=1, value=b"{}")]))
    partition = ProducePartition(index=0, records=batch)
    return ProduceRequest(acks=-1, timeout_ms=1_000, topics=[ProduceTopic(name=name, partitions=[partition])])


@scenario(partial(in_broker_world, settings=CHANGES))
async def test_au03_no_client_writes_deletes_or_empties_the_audit(world: BrokerWorld) -> None:
    topic = await world.parts.creation.audit_topic()
    client = client_of(world)
    answer = await client.ask(batch_for(AUDIT_TOPIC), 11)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    deleted = await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=AUDIT_TOPIC)]))
    emptied = await client.ask(
        delete_records.DeleteRecordsRequest(
            topics=[
                delete_records.DeleteRecordsTopic(
                    name=AUDIT_TOPIC,
                    partitions=[delete_records.DeleteRecordsPartition(partition_index=0, offset=-1)],
                )
            ]
        )
    )
    assert deleted.responses[0].error_code and emptied.topics[0].partitions[0].error_code
    assert topic.is_internal and topic.partition_count == 8


@pytest.mark.parametrize("mode", list(AuthorizationMode))
def test_nd01_a_node_may_write_the_audit_and_no_other_topic(mode: AuthorizationMode) -> None:
    async def scenario(world: BrokerWorld) -> None:
        await world.topic("t")
        await world.parts.creation.audit_topic()
        if mode is not AuthorizationMode.OFF:
            await switch(world, mode=mode)
        node = client_of(world)
        node.connection.principal = NODE
        codes = [
            (await node.ask(batch_for(name), 11)).topics[0].partitions[0].error_code
            for name in (AUDIT_TOPIC, "t", "__consumer_offsets")
        ]
        assert codes == [ErrorCode.NONE, *[ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2]

    in_broker_world(scenario)


@scenario(partial(in_broker_cluster, count=2, settings=CHANGES))
async def test_au03_a_node_that_leads_no_partition_has_another_one_write(cluster: BrokerCluster) -> None:
    first, second = cluster.nodes
    topic = await first.parts.creation.audit_topic()
    for index in range(topic.partition_count):
        await cluster.move(topic, 0, index)
    await cluster.until(lambda: all(cluster.partition(topic, n).leader == 0 for n in range(8)))
    for node in cluster.nodes:
        name = f"of-{node.node_id}"
        made = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
        await node.client().ask(made)
    await cluster.passes(3_000)
    records = await audited(first.parts)
    assert sorted((each["node"], each["resource"]) for each in records) == [
        (0, "topic of-0"),
        (1, "topic of-1"),
    ]
    assert await audited(second.parts) == []


@scenario(partial(in_broker_world, settings=CHANGES))
async def test_au02_a_topic_that_cannot_be_written_holds_up_nobody(world: BrokerWorld) -> None:
    audit: Any = world.broker._audit
    held, audit._topic = audit._topic, _unreachable
    for n in range(3):
        await client_of(world).ask(
            CreateTopicsRequest(topics=[CreatableTopic(name=f"t{n}", num_partitions=1, replication_factor=1)])
        )
    await passes(world, 5_000)
    assert await audited(world.parts) == []
    audit._topic = held
    await passes(world, 2_000)
    assert [each["resource"] for each in await audited(world.parts)] == ["topic t0", "topic t1", "topic t2"]


@scenario(partial(in_broker_world, settings=CHANGES))
async def test_au03_a_note_that_cannot_be_removed_has_no_other_record_written_again(
    world: BrokerWorld,
) -> None:
    audit: Any = world.broker._audit
    execute = audit._metadata.execute
    event = AuditEvent(event=AuditKind.MODE, resource="authorization", principal="OS:ops")
    await world.parts.metadata.execute(note_command("a", AuditNote(1, event)))
    audit._metadata = SimpleNamespace(execute=_refused, image=audit._metadata.image)
    await client_of(world).ask(
        CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    )
    audit._trail.add(event)
    await passes(world, 5_000)
    audit._metadata = SimpleNamespace(execute=execute, image=world.parts.metadata.image)
    await passes(world, 2_000)
    kinds = Counter(each["resource"] for each in await audited(world.parts))
    assert kinds["topic t"] == 1
    assert kinds["authorization"] > 1, "the note itself: it is removed only after it was written"
    assert not [key for key in world.parts.metadata.image.keys if key.startswith("audit-note/")]


async def _refused(command: Any) -> Any:
    raise LogUnavailable("the metadata cannot be reached")


async def _unreachable() -> Any:
    raise LogUnavailable("the metadata cannot be reached")


@scenario(partial(in_broker_world, settings=CHANGES))
async def test_au03_notes_without_room_are_written_when_there_is_some(
    world: BrokerWorld,
) -> None:
    """The topic cannot be written while a hundred notes come and changes fill the memory."""
    world.broker.trail.gathering = AuditGathering(world.parts.node_id, waiting_bytes_max=10_000)
    event = AuditEvent(event=AuditKind.USER, outcome="done", resource="user eve", after="x" * 500)
    await world.parts.creation.audit_topic()
    working = world.broker._audit._append

    async def fails(_: object) -> None:
        raise LogUnavailable("not now")

    world.broker._audit._append = fails
    for number in range(50):
        await world.parts.metadata.execute(note_command(f"{number:03}", AuditNote(number, event)))
        world.broker.trail.add(replace(event, resource=f"user of a client {number}"))
        await passes(world, 1_000)
    assert world.broker.trail.gathering.statistics().waiting_bytes <= 10_000
    world.broker._audit._append = working
    await passes(world, 60_000)
    assert not [key for key in world.parts.metadata.image.keys if key.startswith("audit-note/")]
    of_notes = [each["time"] for each in await audited(world.parts) if each.get("resource") == "user eve"]
    assert len(of_notes) == len(set(of_notes)) == 50


@pytest.mark.parametrize(
    ("mode", "outcome"), [(AuthorizationMode.ON, "refused"), (AuthorizationMode.REPORT, "passed")]
)
def test_ac19_what_is_denied_or_would_be_is_audited(mode: AuthorizationMode, outcome: str) -> None:
    async def scene(world: BrokerWorld) -> None:
        await world.topic("t")
        await switch(world, mode=mode)
        await client_of(world).ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))
        await passes(world)
        denied = [each for each in await audited(world.parts) if each["event"] == "denied"]
        names = ("outcome", "principal", "operation", "resource", "rule")
        expected = (outcome, str(STRANGER), "DESCRIBE", "topic t", "no ACL allows it")
        assert [fields_of(each, names) for each in denied] == [expected]

    in_broker_world(scene, ALL)
