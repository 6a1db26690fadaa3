"""Nouns of access: what a listener speaks, how a client logs in, and in whose name a request comes."""

from enum import Enum, IntEnum, StrEnum

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


class ScramMechanism(IntEnum):
    """A mechanism of SCRAM, by Kafka's number of it [Kafka: ScramMechanism]."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def written(self) -> str:
        """The name in a handshake and in the settings of clients."""
        return self.name.replace("_", "-")

    @property
    def algorithm(self) -> str:
        """The name of the hash function, as hashlib has it."""
        return self.name.replace("SCRAM_", "").replace("_", "").lower()

    @property
    def key_bytes(self) -> int:
        return 32 if self is ScramMechanism.SCRAM_SHA_256 else 64


class LoginMechanism(StrEnum):
    """A way to log in that a listener may offer [Kafka: sasl.enabled.mechanisms]."""

    SCRAM_SHA_512 = "SCRAM-SHA-512"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    PLAIN = "PLAIN"
    OAUTHBEARER = "OAUTHBEARER"
    """A token of an issuer elsewhere."""

    @property
    def scram(self) -> ScramMechanism | None:
        """The mechanism of SCRAM that this is; None: it is none."""
        return _SCRAM.get(self)

    @property
    def sends_its_secret(self) -> bool:
        """Whether the broker, and everybody on the way without TLS, gets what proves the client."""
        return self in (LoginMechanism.PLAIN, LoginMechanism.OAUTHBEARER)


_SCRAM = {
    LoginMechanism.SCRAM_SHA_512: ScramMechanism.SCRAM_SHA_512,
    LoginMechanism.SCRAM_SHA_256: ScramMechanism.SCRAM_SHA_256,
}


class NodeMechanism(StrEnum):
    """How the nodes of a store log in to each other. It stands in no setting and in no list of mechanisms."""

    SILTSTONE_NODE = "SILTSTONE-NODE"


class SessionState(Enum):
    """How far a connection is with its login; ``broker.security.sasl.states`` has the table. On a listener without a
    login every connection is AUTHENTICATED from its beginning."""

    START = "start"
    VERSIONS = "versions"
    EXCHANGE = "exchange"
    AUTHENTICATED = "authenticated"
    REAUTHENTICATE = "reauthenticate"
    CLOSING = "closing"


RESERVED_USERS = "siltstone-"
"""No person and no program may have a name that begins so: they are those of the nodes."""


class Principal(msgspec.Struct, frozen=True):
    """The person or program in whose name a client sends its requests."""

    name: str
    kind: str = "User"

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


NODE = Principal(f"{RESERVED_USERS}node")
"""Every node of the store, when another node asks it something. ``broker.security.node_rights`` says what it may."""

ANONYMOUS = Principal("ANONYMOUS")
"""A client that has not said who it is [Kafka: KafkaPrincipal.ANONYMOUS]."""
