"""Handles DescribeClientQuotas. The answer has no quota, because this broker has none. Filters are checked as in
Kafka."""

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from siltstone.model.errors import InvalidRequest

ENTITY_TYPES = frozenset({"user", "client-id", "ip"})
EXACT, DEFAULT, SPECIFIED = range(3)


async def handle_describe_client_quotas(
    parts: BrokerParts, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        _check(request.components)
    except InvalidRequest as refusal:
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=str(refusal), entries=None
        )
    return DescribeClientQuotasResponse(error_message=None, entries=[])


def _check(components: list[ComponentData]) -> None:
    """Raises InvalidRequest."""
    seen: set[str] = set()
    for each in components:
        if each.entity_type not in ENTITY_TYPES:
            raise InvalidRequest(f"Unexpected client quota entity type {each.entity_type[:100]!r}")
        if each.entity_type in seen:
            raise InvalidRequest(f"Duplicate filter component for entity type {each.entity_type}")
        seen.add(each.entity_type)
        if each.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise InvalidRequest(f"Unexpected match type {each.match_type}")
        if (each.match is None) is (each.match_type == EXACT):
            raise InvalidRequest("A name is given to match exactly, and only then")
