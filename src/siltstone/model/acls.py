"""Nouns of authorization, with Kafka's numbers: resources and patterns of their names, operations, permissions, the
binding that allows or denies something, the filter that finds bindings, and the mode of a store.

The numbers are those of the protocol and of the metadata log. Which bindings answer a question: ``broker.security``.
"""

from enum import IntEnum, StrEnum

import msgspec


class AclResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of a binding is compared with that of a resource. ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The only resource of type CLUSTER."""

WILDCARD = "*"
"""As the name of a LITERAL pattern: every resource of the type. As a host: every host."""

EVERYBODY = "User:*"


class AclBinding(msgspec.Struct, frozen=True, gc=False, array_like=True, order=True):
    """One rule: the principal may, or may not, do the operation on the resources of the pattern, from the host."""

    resource_type: AclResourceType
    pattern_type: PatternType
    name: str
    principal: str
    host: str
    operation: AclOperation
    permission: Permission

    @property
    def key(self) -> str:
        """Returns a text that no other binding has."""
        return "\0".join((
            f"{self.resource_type} {self.pattern_type} {self.operation} {self.permission}",
            self.name, self.principal, self.host,
        ))  # fmt: skip

    def __str__(self) -> str:
        pattern = "prefix " if self.pattern_type is PatternType.PREFIXED else ""
        return (
            f"{self.permission.name} {self.principal} from {self.host}: {self.operation.name} on "
            f"{self.resource_type.name} {pattern}{self.name}"
        )


class AclFilter(msgspec.Struct, frozen=True):
    """Finds bindings: ANY and None match everything. The pattern type MATCH finds all patterns that apply to a resource
    of that name. ANY finds the patterns with that name, of both types."""

    resource_type: AclResourceType = AclResourceType.ANY
    pattern_type: PatternType = PatternType.ANY
    name: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: Permission = Permission.ANY


class AuthorizationMode(StrEnum):
    """What a store does with its bindings."""

    OFF = "off"
    """Every client may do everything."""
    REPORT = "report"
    """Every client may do everything; what ON would refuse is counted and logged."""
    ON = "on"

    def is_below(self, other: "AuthorizationMode") -> bool:
        """Whether the other mode is stricter."""
        modes = list(AuthorizationMode)
        return modes.index(self) < modes.index(other)


class Authorization(msgspec.Struct, frozen=True, array_like=True):
    """``super_users`` are principals, sorted, that may do everything in every mode."""

    mode: AuthorizationMode = AuthorizationMode.OFF
    super_users: tuple[str, ...] = ()
