"""Rights in tests: one ACL in a line, and a broker world with authorization switched on."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec

from siltstone.broker.request import Asked, ConnectionContext, Question
from siltstone.metadata.acls import CreateAcls, SetAuthorization
from siltstone.model.access import Principal
from siltstone.model.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclResourceType,
    AuthorizationMode,
    PatternType,
    Permission,
)
from support.broker.broker_world import BrokerWorld, Client

STRANGER = Principal("s")
"""The client whose rights are tried."""

ROOT = Principal("root")
EVERYBODY = Principal("*")


def allow(
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str = CLUSTER_NAME,
    *,
    principal: Principal = STRANGER,
    permission: Permission = Permission.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> AclBinding:
    return AclBinding(resource_type, pattern, name, str(principal), host, operation, permission)


async def switch(
    world: BrokerWorld, *bindings: AclBinding, mode: AuthorizationMode = AuthorizationMode.ON
) -> None:
    """Sets the mode, with ROOT as the super user, and adds ACLs."""
    await world.parts.metadata.execute(SetAuthorization(mode, added=(str(ROOT),)))
    if bindings:
        await world.parts.metadata.execute(CreateAcls(bindings))


def client_of(world: BrokerWorld, principal: Principal = STRANGER) -> Client:
    client = world.client()
    client.connection.principal = principal
    return client


def refusals_in(answer: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """Yields each error code in an answer that is not 0, and the names of the fields that lead to it."""
    for field in msgspec.structs.fields(type(answer)):
        value, name = getattr(answer, field.name), f"{path}{field.name}"
        if field.name.endswith("error_code") and field.name != "topic_config_error_code":
            if value:
                yield name, value
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, msgspec.Struct):
                    yield from refusals_in(each, f"{name}.")


class AskedRights:
    """Stands for the authorizer of a broker: notes each question, and allows some operations on everything."""

    is_open = False
    version = 1

    def __init__(self, allowed: Collection[AclOperation]) -> None:
        self._allowed = allowed
        self.asked: set[tuple[AclOperation, AclResourceType]] = set()

    def is_known(self, connection: ConnectionContext, asked: Asked) -> bool:
        return False

    def may(self, connection: ConnectionContext, api_key: int, question: Question) -> bool:
        self.asked.add((question.operation, question.resource_type))
        return question.operation in self._allowed


class NamedRights:
    """Stands for the authorizer of a broker: allows what is listed, of any caller."""

    is_open = False
    version = 1

    def __init__(self, allowed: Collection[tuple[AclOperation, AclResourceType, str]]) -> None:
        self._allowed = allowed

    def is_known(self, connection: ConnectionContext, asked: Asked) -> bool:
        return asked in self._allowed

    def may(self, connection: ConnectionContext, api_key: int, question: Question) -> bool:
        return (question.operation, question.resource_type, question.name) in self._allowed
