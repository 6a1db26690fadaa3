"""Handles InitProducerId: assigns an id to an idempotent producer.

A producer that sends the id and epoch it has gets a new id, as in Kafka without transactions. The old id needs no
fencing, because no other producer has it. Transactions are refused with the one code on which every client gives up at
once.
"""

from siltstone.broker.error_codes import error_code
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from siltstone.model.errors import SiltstoneError

NONE = -1
"""Means that a producer id or an epoch is missing."""


async def handle_init_producer_id(
    parts: BrokerParts, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    if refusal := _refusal(request):
        return _refused(refusal)
    try:
        producer_id = await parts.producer_ids.next()
    except SiltstoneError as failure:
        return _refused(error_code(failure))
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refusal(request: InitProducerIdRequest) -> ErrorCode | None:
    if request.transactional_id == "":
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is not None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if (request.producer_id == NONE) is not (request.producer_epoch == NONE):
        return ErrorCode.INVALID_REQUEST
    return None


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)
