"""InitProducerId: an id for an idempotent producer.

One that comes back with the id and epoch it had gets a new id: that is what Kafka does without transactions, and it
fences nothing, because nobody else can have the old id. Transactions are refused with the one code on which every
client gives up at once.
"""

from siltstone.broker.error_codes import error_code
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from siltstone.model.errors import SiltstoneError

NONE = -1
"""No producer id, and no epoch."""


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
