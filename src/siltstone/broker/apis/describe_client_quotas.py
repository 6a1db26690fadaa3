"""DescribeClientQuotas: the limits of the entities that a filter finds (KIP-546).

A component of the filter names a type, and its name, its default, or any name. An entity that has further types is
found as well, unless the filter is strict.
"""

from collections.abc import Mapping

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from siltstone.model.errors import InvalidRequest
from siltstone.model.quotas import ClientQuota, QuotaEntityType
from siltstone.runtime.turns import in_turns

EXACT, DEFAULT, SPECIFIED = range(3)


async def handle_describe_client_quotas(
    parts: BrokerParts, context: RequestContext, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    try:
        asked = _checked(request.components)
    except InvalidRequest as refusal:
        return DescribeClientQuotasResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message=str(refusal), entries=None
        )
    quotas = parts.metadata.image.quotas
    rows = await in_turns(
        lambda key: _row(quotas[key]) if is_found(quotas[key], asked, is_strict=request.strict) else None,
        sorted(quotas),
    )
    return DescribeClientQuotasResponse(error_message=None, entries=[row for row in rows if row is not None])


def _checked(components: list[ComponentData]) -> dict[str, ComponentData]:
    """Returns the components by their types. Raises InvalidRequest."""
    seen: dict[str, ComponentData] = {}
    for each in components:
        if each.entity_type not in QuotaEntityType.__members__.values():
            raise InvalidRequest(f"Unexpected client quota entity type {each.entity_type[:100]!r}")
        if each.entity_type in seen:
            raise InvalidRequest(f"Duplicate filter component for entity type {each.entity_type}")
        seen[each.entity_type] = each
        if each.match_type not in (EXACT, DEFAULT, SPECIFIED):
            raise InvalidRequest(f"Unexpected match type {each.match_type}")
        if (each.match is None) is (each.match_type == EXACT):
            raise InvalidRequest("A name is given to match exactly, and only then")
    if QuotaEntityType.IP in seen and len(seen) > 1:
        raise InvalidRequest(
            "An IP filter component cannot stand beside filter components of users and client ids"
        )
    return seen


def is_found(quota: ClientQuota, asked: Mapping[str, ComponentData], *, is_strict: bool) -> bool:
    names = dict(quota.entity)
    if is_strict and len(names) != len(asked):
        return False
    for kind, component in asked.items():
        named = QuotaEntityType(kind)
        if named not in names:
            return False
        if component.match_type != SPECIFIED and names[named] != component.match:
            return False
    return True


def _row(quota: ClientQuota) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in quota.entity],
        values=[ValueData(key=key, value=value) for key, value in quota.limits],
    )
