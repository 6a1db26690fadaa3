"""FindCoordinator: a group is coordinated by the leader of its partition of ``__consumer_offsets``, a transactional id
by that of its partition of ``__transaction_state``. Share groups are not served."""

from typing import Protocol

from siltstone.broker.cluster_view import ClusterView
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from siltstone.runtime.turns import in_turns

GROUP_KEY, TRANSACTION_KEY = 0, 1
SEVERAL_SINCE = 4
NO_SUCH_KIND = "Only consumer groups and transactional ids have coordinators here."


NO_COORDINATOR = "The coordinator is not available now; try again."

NO_ERROR_MESSAGE = "NONE"
"""What Kafka writes there in versions 1 to 3 when there is no error: the name of the code."""


class CoordinatorPlaces(Protocol):
    """The groups, or the transactions, of all nodes."""

    async def prepare_to_find(self) -> object:
        """Creates the topic whose leaders are the coordinators, if that is needed to find one."""
        ...

    def coordinator_of(self, key: str) -> int | None:
        """Returns the node that coordinates the group or the transactional id; None when no node does now."""
        ...


async def handle_find_coordinator(
    groups: CoordinatorPlaces,
    transactions: CoordinatorPlaces,
    cluster: ClusterView,
    context: RequestContext,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse:
    coordinating: CoordinatorPlaces | None = None
    if request.key_type == GROUP_KEY:
        coordinating = groups
    elif request.key_type == TRANSACTION_KEY:
        coordinating = transactions
    if coordinating is not None:
        await coordinating.prepare_to_find()
    if context.api_version >= SEVERAL_SINCE:
        found = await in_turns(
            lambda key: _found(coordinating, cluster, context, key), request.coordinator_keys
        )
        return FindCoordinatorResponse(coordinators=found)
    coordinator = _found(coordinating, cluster, context, request.key)
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message or NO_ERROR_MESSAGE,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _found(
    coordinating: CoordinatorPlaces | None, cluster: ClusterView, context: RequestContext, key: str
) -> Coordinator:
    if coordinating is None:
        return _refused(key, ErrorCode.INVALID_REQUEST, NO_SUCH_KIND)
    node_id = coordinating.coordinator_of(key)
    at = None if node_id is None else cluster.endpoint_of(node_id, context.connection.listener)
    if at is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_COORDINATOR)
    return Coordinator(key=key, node_id=at.node_id, host=at.host, port=at.port)


def _refused(key: str, refusal: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=refusal, error_message=message)
