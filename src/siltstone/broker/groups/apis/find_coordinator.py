"""FindCoordinator: a group is coordinated by the leader of its partition of ``__consumer_offsets``. Transactions and
share groups are not served.

A producer with a transactional id sends this request first, and must fail at once with a clear text. Versions up to 3
come from librdkafka and others, which fail only for TRANSACTIONAL_ID_AUTHORIZATION_FAILED (and show its text) and
otherwise retry for ever. Version 4 and later come from Java's client and similar ones, which fail for any error that
is not retriable, and show the text only of an error that they do not know.
"""

from siltstone.broker.cluster_view import BrokerEndpoint, ClusterView
from siltstone.broker.groups.groups import Groups
from siltstone.broker.request import Listener, RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from siltstone.runtime.turns import in_turns

GROUP_KEY, TRANSACTION_KEY = 0, 1
SEVERAL_SINCE = 4
NO_TRANSACTIONS = (
    "Transactions are not supported by this broker; remove transactional.id from the configuration."
)
NO_SUCH_KIND = "Only consumer groups have coordinators here."


NO_COORDINATOR = "The coordinator of the group is not available now; try again."

NO_ERROR_MESSAGE = "NONE"
"""What Kafka writes there in versions 1 to 3 when there is no error: the name of the code."""


async def handle_find_coordinator(
    groups: Groups, cluster: ClusterView, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    if request.key_type == GROUP_KEY:
        await groups.prepare_to_find()
    if context.api_version >= SEVERAL_SINCE:
        found = await in_turns(
            lambda key: _found(groups, cluster, context, request.key_type, key), request.coordinator_keys
        )
        return FindCoordinatorResponse(coordinators=found)
    coordinator = _found(groups, cluster, context, request.key_type, request.key)
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message or NO_ERROR_MESSAGE,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _found(
    groups: Groups, cluster: ClusterView, context: RequestContext, key_type: int, key: str
) -> Coordinator:
    if key_type == GROUP_KEY:
        at = _coordinator(groups, cluster, context.connection.listener, key)
        if at is None:
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_COORDINATOR)
        return Coordinator(key=key, node_id=at.node_id, host=at.host, port=at.port)
    if key_type == TRANSACTION_KEY:
        is_old = context.api_version < SEVERAL_SINCE
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if is_old else ErrorCode.UNSUPPORTED_VERSION
        return _refused(key, code, NO_TRANSACTIONS)
    return _refused(key, ErrorCode.INVALID_REQUEST, NO_SUCH_KIND)


def _coordinator(
    groups: Groups, cluster: ClusterView, listener: Listener, group_id: str
) -> BrokerEndpoint | None:
    """Returns the broker that coordinates the group; None if there is none now."""
    node_id = groups.coordinator_of(group_id)
    return None if node_id is None else cluster.endpoint_of(node_id, listener)


def _refused(key: str, refusal: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=refusal, error_message=message)
