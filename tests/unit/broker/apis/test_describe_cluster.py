import pytest

from siltstone.broker.apis.topic_description import CLUSTER_OPERATIONS, NOT_ASKED
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_cluster import DescribeClusterRequest
from support.broker.admin_world import CLUSTER_ID, NODE_ID, connection_at, in_admin_world
from support.scenarios import scenario


@pytest.mark.parametrize("version", range(3))
@scenario(in_admin_world)
async def test_item_15_one_broker_that_is_its_own_controller(world, version) -> None:
    answer = await world.answer(DescribeClusterRequest(), version, connection_at("outside", 5))
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, NODE_ID)
    (broker,) = answer.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.is_fenced) == (
        NODE_ID, "outside", 5, False,
    )  # fmt: skip
    assert answer.cluster_authorized_operations == NOT_ASKED


@scenario(in_admin_world)
async def test_item_16_operations_when_asked_for(world) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    assert (await world.answer(request)).cluster_authorized_operations == CLUSTER_OPERATIONS


@pytest.mark.parametrize(
    ("endpoint_type", "code"),
    [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (0, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE), (9, 115)],
)
@scenario(in_admin_world)
async def test_who_looks_for_something_else_than_a_broker_is_told(world, endpoint_type, code) -> None:
    answer = await world.answer(DescribeClusterRequest(endpoint_type=endpoint_type))
    assert answer.error_code == code and answer.error_message
    assert answer.brokers == []
