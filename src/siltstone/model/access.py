"""Nouns of access: what a listener speaks, and in whose name a request comes."""

from enum import StrEnum

import msgspec


class SecurityProtocol(StrEnum):
    """What a listener and its clients speak below Kafka's requests [Kafka: security.protocol]."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    """TLS; Kafka keeps the older name."""
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_encrypted(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def wants_login(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class Principal(msgspec.Struct, frozen=True):
    """The person or program in whose name a client sends its requests."""

    name: str
    kind: str = "User"

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("ANONYMOUS")
"""A client that has not said who it is [Kafka: KafkaPrincipal.ANONYMOUS]."""
