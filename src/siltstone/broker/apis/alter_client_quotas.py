"""AlterClientQuotas: sets and removes limits of users, client ids and addresses.

Each entity is answered for itself, and all changes that are allowed are one command, as in Kafka. Addresses are numbers
here: Kafka also takes names of hosts, and looks them up.
"""

from collections import Counter

from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.security.gates.cluster import altered_entity
from siltstone.kafka_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    QuotaAlteration,
    QuotaAlterationResult,
)
from siltstone.metadata.decisions.quotas import check_change
from siltstone.metadata.decisions.table import decide
from siltstone.metadata.quotas import AlterQuotas, QuotaChange
from siltstone.metadata.refusals import QuotaNotAllowed, Refusal
from siltstone.model.errors import SiltstoneError
from siltstone.model.quotas import QuotaEntity, QuotaEntityType, QuotaKey, entity_key

TYPES = {str(kind): kind for kind in QuotaEntityType}
KEYS = {str(key): key for key in QuotaKey}
SHOWN_CHARACTERS = 100


async def handle_alter_client_quotas(
    parts: BrokerParts, context: RequestContext, request: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    changes: list[QuotaChange] = []
    refusals: list[SiltstoneError | None] = []
    for entry in request.entries:
        try:
            changes.append(change_of(entry))
            refusals.append(None)
        except QuotaNotAllowed as refusal:
            refusals.append(refusal)
    times_named = Counter(entity_key(change.entity) for change in changes)
    if any(times > 1 for times in times_named.values()):
        failure: SiltstoneError | None = QuotaNotAllowed("an entity is named twice: name it once")
    else:
        failure = await _altered(parts, tuple(changes), validate_only=request.validate_only)
    return AlterClientQuotasResponse(
        entries=[_result(entry, own or failure) for entry, own in zip(request.entries, refusals, strict=True)]
    )


async def _altered(
    parts: BrokerParts, changes: tuple[QuotaChange, ...], *, validate_only: bool
) -> SiltstoneError | None:
    if not changes:
        return None
    command = AlterQuotas(changes)
    try:
        if not validate_only:
            await parts.metadata.execute(command)
        elif isinstance(answer := decide(parts.metadata.image, command, parts.clock.now_ms()), Refusal):
            raise answer
    except SiltstoneError as failure:
        return failure
    return None


def change_of(entry: QuotaAlteration) -> QuotaChange:
    """Raises QuotaNotAllowed."""
    entity = _entity_of(entry)
    limits: list[tuple[QuotaKey, float | None]] = []
    for operation in entry.ops:
        key = KEYS.get(operation.key)
        if key is None:
            raise QuotaNotAllowed(
                f"{operation.key[:SHOWN_CHARACTERS]!r} is no quota: known are {', '.join(KEYS)}"
            )
        limits.append((key, None if operation.remove else operation.value))
    change = QuotaChange(entity, tuple(limits))
    check_change(change)
    return change


def _entity_of(entry: QuotaAlteration) -> QuotaEntity:
    """Raises QuotaNotAllowed."""
    pairs: list[tuple[QuotaEntityType, str | None]] = []
    for each in entry.entity:
        kind = TYPES.get(each.entity_type)
        if kind is None:
            raise QuotaNotAllowed(
                f"{each.entity_type[:SHOWN_CHARACTERS]!r} has no quotas: write user, client-id or ip"
            )
        pairs.append((kind, each.entity_name))
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def _result(entry: QuotaAlteration, refusal: SiltstoneError | None) -> QuotaAlterationResult:
    if refusal is None:
        return QuotaAlterationResult(error_message=None, entity=altered_entity(entry))
    return QuotaAlterationResult(
        error_code=error_code(refusal), error_message=error_message(refusal), entity=altered_entity(entry)
    )
