"""Decides the command about quotas: which entities and limits are allowed, as Kafka's ClientQuotaControlManager does.

The rules are functions of their own, because a broker answers each entity of a request for itself.
"""

import math
from ipaddress import ip_address

from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.image import ImageView
from siltstone.metadata.quotas import AlterQuotas, QuotaChange
from siltstone.metadata.records import QuotaRemoved, QuotaSet, Record
from siltstone.metadata.refusals import QuotaNotAllowed, TooManyQuotas
from siltstone.model.quotas import QuotaEntity, QuotaEntityType, QuotaKey, entity_key, shown_entity
from siltstone.model.serving_limits import QUOTA_NAME_BYTES_MAX, QUOTAS_CHANGED_AT_ONCE_MAX, QUOTAS_MAX

WHOLE_MAX = 2**53
"""Up to here a float is an exact whole number: 9 PB a second."""


def decide_alter_quotas(view: ImageView, command: AlterQuotas, now_ms: int) -> Decision[None]:
    if len(command.changes) > QUOTAS_CHANGED_AT_ONCE_MAX:
        raise TooManyQuotas(
            f"{len(command.changes):,} entities in one command: change at most {QUOTAS_CHANGED_AT_ONCE_MAX:,} at a time"
        )
    keys = [entity_key(change.entity) for change in command.changes]
    if len(set(keys)) < len(keys):
        raise QuotaNotAllowed("an entity is named twice: write its changes together")
    records: list[Record] = []
    count = len(view.quotas)
    for key, change in zip(keys, command.changes, strict=True):
        check_change(change)
        standing = view.quotas.get(key)
        before = {} if standing is None else dict(standing.limits)
        after = before | {each: value for each, value in change.limits if value is not None}
        for each, value in change.limits:
            if value is None and after.pop(each, None) is not None:
                records.append(QuotaRemoved(change.entity, each))
            elif value is not None and before.get(each) != value:
                records.append(QuotaSet(change.entity, each, value))
        count += bool(after) - bool(before)
    if count > max(QUOTAS_MAX, len(view.quotas)):
        raise TooManyQuotas(
            f"the store would have quotas of more than {QUOTAS_MAX:,} entities: remove some, or use the defaults"
        )
    return Decision(tuple(records), None)


def check_change(change: QuotaChange) -> None:
    """Raises QuotaNotAllowed."""
    check_entity(change.entity)
    keys = [key for key, _ in change.limits]
    if len(set(keys)) < len(keys):
        raise QuotaNotAllowed(f"a limit of {shown_entity(change.entity)} is named twice: name it once")
    is_address = change.entity[0][0] is QuotaEntityType.IP
    for key, value in change.limits:
        if key.is_of_addresses is not is_address:
            raise QuotaNotAllowed(
                f"{key} is a limit of {'addresses' if key.is_of_addresses else 'users and client ids'}: "
                f"{shown_entity(change.entity)} cannot have it"
            )
        if value is not None:
            _check_value(key, value)


def check_entity(entity: QuotaEntity) -> None:
    """Raises QuotaNotAllowed."""
    kinds = [kind for kind, _ in entity]
    if not kinds or kinds != sorted(set(kinds)):
        raise QuotaNotAllowed("a quota names a user, a client id, both, or an address, each once")
    if QuotaEntityType.IP in kinds and len(kinds) > 1:
        raise QuotaNotAllowed("a quota of an address is of no user and no client id: leave those out")
    for kind, name in entity:
        if name is not None:
            _check_name(kind, name)


def _check_name(kind: QuotaEntityType, name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= QUOTA_NAME_BYTES_MAX or "\0" in name or "\1" in name:
        raise QuotaNotAllowed(
            f"the name of a {kind} has 1 to {QUOTA_NAME_BYTES_MAX:,} bytes of UTF-8, and none of value 0 or 1"
        )
    if kind is QuotaEntityType.IP:
        _check_address(name)


def _check_address(name: str) -> None:
    try:
        written = str(ip_address(name))
    except ValueError:
        written = ""
    if written != name:
        raise QuotaNotAllowed(
            f"{name[:100]!r} is no address of IPv4 or IPv6{f': write {written}' if written else ''}; siltstone clients "
            "shows the addresses of clients"
        )


def _check_value(key: QuotaKey, value: float) -> None:
    if not math.isfinite(value) or value <= 0:
        raise QuotaNotAllowed(f"{key} has to be greater than 0")
    if key.is_whole and (value != int(value) or value > WHOLE_MAX):
        raise QuotaNotAllowed(f"{key} has to be a whole number of at most {WHOLE_MAX}")
