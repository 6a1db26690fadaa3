import pytest

from siltstone.broker.features import promise_features
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from support.broker.admin_world import connection_at, in_admin_world
from support.scenarios import scenario

OURSELVES = ApiVersionsRequest(client_software_name="a-client", client_software_version="1.0")


@pytest.mark.parametrize("version", range(5))
@scenario(in_admin_world)
async def test_everything_announced_is_answered_in_every_version(world, version) -> None:
    await promise_features(world.parts.metadata, world.parts.node_id)
    answer = await world.answer(OURSELVES, version)
    rows = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert rows == dict(ANNOUNCED)
    assert answer.error_code == ErrorCode.NONE
    assert not answer.zk_migration_ready, "no tagged field"


@pytest.mark.parametrize(("version", "epoch"), [(2, -1), (3, 0), (4, 0)])
@scenario(in_admin_world)
async def test_tx39_transaction_version_2_is_finalized(world, version, epoch) -> None:
    nothing = await world.answer(OURSELVES, version)
    assert not nothing.finalized_features, "a node without it may be there"
    assert nothing.finalized_features_epoch == -1
    await promise_features(world.parts.metadata, world.parts.node_id)
    answer = await world.answer(OURSELVES, version)
    finalized = [(each.name, each.max_version_level) for each in answer.finalized_features]
    supported = [(each.name, each.min_version, each.max_version) for each in answer.supported_features]
    assert finalized == (
        [("transaction.version", 2), ("group.version", 1), ("share.version", 1)] if version >= 3 else []
    )
    assert supported == (
        [("transaction.version", 0, 2), ("group.version", 0, 1), ("share.version", 0, 1)]
        if version >= 4
        else []
    ), "KAFKA-17011"
    assert answer.finalized_features_epoch == epoch


@pytest.mark.parametrize(
    ("name", "software_version"),
    [
        ("", "1"),
        ("a", ""),
        ("-a", "1"),
        ("a-", "1"),
        ("a b", "1"),
        ("a", "1/2"),
        ("ä", "1"),
        ("a\n", "1"),
        ("a", "1\n"),
    ],
)
@scenario(in_admin_world)
async def test_item_10_software_that_cannot_be_a_name_of_software(world, name, software_version) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    for version in (3, 4):
        answer = await world.answer(request, version)
        assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])
    assert world.connection.client_software_name == ""


@scenario(in_admin_world)
async def test_item_10_older_versions_do_not_say_and_are_not_asked(world) -> None:
    assert (await world.answer(ApiVersionsRequest(), 2)).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("name", "software_version"),
    [("a", "1"), ("librdkafka", "v2.16.0-RC1-dirty"), ("apache-kafka-java", "4.3.0"), ("kgo.x-1", "4.3.0")],
)
@scenario(in_admin_world)
async def test_item_10_the_connection_knows_its_client(world, name, software_version) -> None:
    connection = connection_at("h", 1)
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    assert (await world.answer(request, 3, connection)).error_code == ErrorCode.NONE
    assert connection.client_software_name == name
    assert connection.client_software_version == software_version
