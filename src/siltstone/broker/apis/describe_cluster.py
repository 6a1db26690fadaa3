"""DescribeCluster: the brokers. The live one with the lowest id is called the controller (item 15)."""

from siltstone.broker.apis.topic_description import NOT_ASKED, cluster_operations
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS, CONTROLLERS = 1, 2
"""The kinds of endpoints that a client may take this broker for."""


async def handle_describe_cluster(
    parts: BrokerParts, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _not_a_broker_endpoint(request.endpoint_type)
    listener = context.connection.listener
    found = parts.cluster.brokers(listener, with_fenced=request.include_fenced_brokers)
    everything = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=parts.cluster_id,
        controller_id=parts.cluster.controller_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=each.node_id,
                host=each.host,
                port=each.port,
                rack=each.rack,
                is_fenced=each.is_fenced,
            )
            for each in found
        ],
        cluster_authorized_operations=cluster_operations(context) if everything else NOT_ASKED,
    )


def _not_a_broker_endpoint(asked: int) -> DescribeClusterResponse:
    if asked == CONTROLLERS:
        code, text = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this is a broker: connect with bootstrap servers, not controllers"
        )  # fmt: skip
    else:
        code, text = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}"
    return DescribeClusterResponse(error_code=code, error_message=text)
