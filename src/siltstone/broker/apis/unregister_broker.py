"""UnregisterBroker: forgets a node that is gone and leads nothing. Any node takes the request.

The refusals of UnregisterNode have texts that say what to do first; Kafka has no codes for them, so they are
INVALID_REQUEST.
"""

from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from siltstone.metadata.commands import UnregisterNode
from siltstone.model.errors import SiltstoneError


async def handle_unregister_broker(
    parts: BrokerParts, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    await parts.cluster.refreshed()
    if request.broker_id not in parts.cluster.image.nodes:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"node {request.broker_id} is not registered",
        )
    try:
        await parts.metadata.execute(UnregisterNode(request.broker_id))
    except SiltstoneError as failure:
        return UnregisterBrokerResponse(error_code=error_code(failure), error_message=error_message(failure))
    return UnregisterBrokerResponse(error_message=None)
