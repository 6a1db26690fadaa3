"""Handles InitProducerId: assigns an id to an idempotent producer. One with a transactional id gets it from the
coordinator of that id.

An idempotent producer that sends the id and epoch it has gets a new id, as in Kafka without transactions. The old id
needs no fencing, because no other producer has it.

A producer id is given once in the life of the store. The ids of transactional producers name the partition of
``__transaction_state`` of their transactional id by the remainder (``parts.ProducerIds``).
"""

from siltstone.broker.error_codes import error_code
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.transactions.apis.producing import start_producer
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from siltstone.model.errors import SiltstoneError

NONE = -1
"""Means that a producer id or an epoch is missing."""


async def handle_init_producer_id(
    parts: BrokerParts, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    if request.transactional_id is not None:
        return await start_producer(
            parts.transactions, context, request, parts.settings.transaction_max_timeout_ms
        )
    if (request.producer_id == NONE) is not (request.producer_epoch == NONE):
        return _refused(ErrorCode.INVALID_REQUEST)
    try:
        producer_id = await parts.producer_ids.next()
    except SiltstoneError as failure:
        return _refused(error_code(failure))
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NONE, producer_epoch=NONE)
