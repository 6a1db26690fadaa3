"""Nouns of quotas, with Kafka's words: what is limited, for which entity, and the limits of an entity.

An entity is a user, a client id, both together, or the address of a client. A name of None stands for the default: it
counts for every user, client id or address that has no limit of its own. Which limit wins: ``broker.quotas``.
"""

from enum import StrEnum

import msgspec


class QuotaEntityType(StrEnum):
    CLIENT_ID = "client-id"
    IP = "ip"
    USER = "user"


class QuotaKey(StrEnum):
    """What is limited. Bytes are counted per second; 100 percent are the whole event loop of one node."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    """Partitions that are created, added or deleted in a second."""
    CONNECTION_CREATION_RATE = "connection_creation_rate"
    """New connections in a second, from one address."""

    __hash__ = str.__hash__
    """That of an enumeration is a function of Python, and each request looks up its limits."""

    @property
    def is_of_addresses(self) -> bool:
        return self is QuotaKey.CONNECTION_CREATION_RATE

    @property
    def is_whole(self) -> bool:
        """Whether a limit has to be a whole number, as in Kafka."""
        return self not in (QuotaKey.REQUEST_PERCENTAGE, QuotaKey.CONTROLLER_MUTATION_RATE)


DEFAULT_WORD = "<default>"
"""How the default of a type is shown, as Kafka's tools do."""

QuotaEntity = tuple[tuple[QuotaEntityType, str | None], ...]
"""Pairs of type and name, sorted by type; each type at most once."""


def entity_of(
    *, user: str | None = "", client_id: str | None = "", ip: str | None = ""
) -> tuple[tuple[QuotaEntityType, str | None], ...]:
    """Returns the entity; an empty text leaves a type out, None is its default."""
    named = ((QuotaEntityType.CLIENT_ID, client_id), (QuotaEntityType.IP, ip), (QuotaEntityType.USER, user))
    return tuple((kind, name) for kind, name in named if name != "")


def shown_entity(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {DEFAULT_WORD if name is None else name}" for kind, name in reversed(entity))


def entity_key(entity: QuotaEntity) -> str:
    """Returns a text that no other entity has."""
    return "\0".join(f"{kind}\1{'0' if name is None else f'1{name}'}" for kind, name in entity)


class ClientQuota(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The limits of one entity: pairs of key and value, sorted by key, at least one."""

    entity: QuotaEntity
    limits: tuple[tuple[QuotaKey, float], ...]

    @property
    def key(self) -> str:
        return entity_key(self.entity)

    def limit(self, key: QuotaKey) -> float | None:
        return next((value for each, value in self.limits if each is key), None)
