"""Which limit counts for a client, and which clients share its counter [Kafka: ClientQuotaManager].

The first level of LEVELS that has a limit wins. The counter belongs to that level: the limit of a user, or the default
for users, is shared by all clients of a user; the limit of a client id by all users that give this id.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

from siltstone.model.quotas import ClientQuota, QuotaKey, entity_key, entity_of


class _Part(Enum):
    """How a level names the user, or the client id."""

    SAME = "its own"
    DEFAULT = "the default"
    NONE = "not at all"


_SAME, _DEFAULT, _NONE = _Part.SAME, _Part.DEFAULT, _Part.NONE

LEVELS: tuple[tuple[_Part, _Part], ...] = (
    (_SAME, _SAME),
    (_SAME, _DEFAULT),
    (_SAME, _NONE),
    (_DEFAULT, _SAME),
    (_DEFAULT, _DEFAULT),
    (_DEFAULT, _NONE),
    (_NONE, _SAME),
    (_NONE, _DEFAULT),
)
"""How each level names user and client id, the strongest first."""


class WinningLimit(msgspec.Struct, frozen=True):
    """``user`` and ``client_id``: whose counter it is; None: the level does not tell them apart."""

    limit: float
    user: str | None
    client_id: str | None


def winning_limit(
    quotas: Mapping[str, ClientQuota], key: QuotaKey, user: str, client_id: str
) -> WinningLimit | None:
    """Returns the limit that counts for the client; None: there is none."""
    for of_user, of_client in LEVELS:
        if of_client is _SAME and not client_id:  # only a default can be meant
            continue
        quota = quotas.get(
            entity_key(entity_of(user=_named(of_user, user), client_id=_named(of_client, client_id)))
        )
        limit = None if quota is None else quota.limit(key)
        if limit is not None:
            return WinningLimit(
                limit, None if of_user is _NONE else user, None if of_client is _NONE else client_id
            )
    return None


def _named(part: _Part, name: str) -> str | None:
    """Returns the name as ``entity_of`` takes it."""
    if part is _SAME:
        return name
    return None if part is _DEFAULT else ""


def limit_of_address(quotas: Mapping[str, ClientQuota], host: str) -> float | None:
    """Returns the most new connections in a second from this address; None: there is no limit."""
    for name in (host, None):
        quota = quotas.get(entity_key(entity_of(ip=name)))
        limit = None if quota is None else quota.limit(QuotaKey.CONNECTION_CREATION_RATE)
        if limit is not None:
            return limit
    return None
