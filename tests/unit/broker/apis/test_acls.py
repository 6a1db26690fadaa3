"""CreateAcls, DescribeAcls and DeleteAcls, as a super user asks for them."""

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.create_acls import AclCreation, CreateAclsRequest
from siltstone.kafka_protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from siltstone.kafka_protocol.messages.describe_acls import DescribeAclsRequest
from siltstone.model.acls import AclBinding, AclOperation, AclResourceType, PatternType
from siltstone.model.serving_limits import ACLS_CREATED_AT_ONCE_MAX
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.scenarios import scenario
from support.security.rights import ROOT, STRANGER, allow, client_of, switch

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
ANY = 1
EVERYTHING = {"resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY,
              "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY}  # fmt: skip


def _creation(binding: AclBinding, **changed: object) -> AclCreation:
    fields = {
        "resource_type": binding.resource_type,
        "resource_name": binding.name,
        "resource_pattern_type": binding.pattern_type,
        "principal": binding.principal,
        "host": binding.host,
        "operation": binding.operation,
        "permission_type": binding.permission,
    }
    return AclCreation(**{**fields, **changed})  # type: ignore[arg-type]


READS = allow(AclOperation.READ, TOPIC, "t")
WRITES = allow(AclOperation.WRITE, TOPIC, "t")
PREFIX = allow(AclOperation.READ, GROUP, "g", pattern=PatternType.PREFIXED)


@pytest.mark.parametrize("version", [1, 2, 3])
@scenario(in_broker_world)
async def test_ac17_without_authorization_there_are_no_acls(world: BrokerWorld, version: int) -> None:
    client = client_of(world, ROOT)
    told = await client.ask(DescribeAclsRequest(**EVERYTHING), version)
    assert (told.error_code, told.resources) == (ErrorCode.SECURITY_DISABLED, [])
    assert told.error_message.startswith("No authorizer is configured")
    told = await client.ask(CreateAclsRequest(creations=[_creation(READS)]), version)
    assert [row.error_code for row in told.results] == [ErrorCode.SECURITY_DISABLED]
    told = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)]), version)
    assert [row.error_code for row in told.filter_results] == [ErrorCode.SECURITY_DISABLED]
    assert not world.parts.metadata.image.acls


@scenario(in_broker_world)
async def test_ac12_each_creation_is_answered_for_itself(world: BrokerWorld) -> None:
    await switch(world, READS)
    version = world.parts.metadata.image.version
    creations = [
        _creation(READS, resource_type=99),
        _creation(READS, resource_name=""),
        _creation(READS, principal="ada"),
        _creation(READS, resource_type=4, resource_name="foo"),
        _creation(READS),
        _creation(WRITES),
    ]
    told = await client_of(world, ROOT).ask(CreateAclsRequest(creations=creations))
    assert [row.error_code for row in told.results] == [42, 42, 42, 42, 0, 0]
    assert told.results[2].error_message == (
        "'ada' is no principal: write its type, a colon and its name, such as User:ada"
    )
    assert world.parts.metadata.image.version == version + 1
    assert set(world.parts.metadata.image.acls.values()) == {READS, WRITES}
    many = [_creation(READS, resource_name=f"t{number}") for number in range(ACLS_CREATED_AT_ONCE_MAX + 1)]
    told = await client_of(world, ROOT).ask(CreateAclsRequest(creations=many))
    assert {row.error_code for row in told.results} == {42}


@scenario(in_broker_world)
async def test_ac11_acls_are_described_and_deleted_by_filters(world: BrokerWorld) -> None:
    await switch(world, READS, WRITES, PREFIX)
    client = client_of(world, ROOT)
    told = await client.ask(DescribeAclsRequest(**EVERYTHING))
    shown = {
        (row.resource_type, row.resource_name, row.pattern_type): sorted(acl.operation for acl in row.acls)
        for row in told.resources
    }
    assert shown == {
        (TOPIC, "t", 3): [AclOperation.READ, AclOperation.WRITE],
        (GROUP, "g", 4): [AclOperation.READ],
    }
    assert (await client.ask(DescribeAclsRequest(**{**EVERYTHING, "operation": 77}))).error_code == 42
    filters = [
        DeleteAclsFilter(**{**EVERYTHING, "resource_name_filter": "g1", "pattern_type_filter": 2}),
        DeleteAclsFilter(**{**EVERYTHING, "operation": AclOperation.WRITE}),
        DeleteAclsFilter(**{**EVERYTHING, "principal_filter": "User:nobody"}),
        DeleteAclsFilter(**{**EVERYTHING, "permission_type": 0}),
    ]
    told = await client.ask(DeleteAclsRequest(filters=filters))
    rows = [(row.error_code, [acl.resource_name for acl in row.matching_acls]) for row in told.filter_results]
    assert rows == [(0, ["g"]), (0, ["t"]), (0, []), (42, [])]
    assert list(world.parts.metadata.image.acls.values()) == [READS]


@scenario(in_broker_world)
async def test_only_who_may_alter_the_cluster_changes_acls(world: BrokerWorld) -> None:
    await switch(world, allow(AclOperation.DESCRIBE, AclResourceType.CLUSTER))
    client = client_of(world, STRANGER)
    assert (await client.ask(DescribeAclsRequest(**EVERYTHING))).error_code == 0
    told = await client.ask(CreateAclsRequest(creations=[_creation(READS)]))
    assert [row.error_code for row in told.results] == [31]
    told = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter(**EVERYTHING)]))
    assert [row.error_code for row in told.filter_results] == [31]
