"""What all gates share: their shape, the codes and texts of refusals, and the parting of what a request names."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias, TypeVar

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.notation import NO_UUID
from siltstone.model.acls import CLUSTER_NAME, AclOperation, AclResourceType
from siltstone.runtime.turns import in_turns

T = TypeVar("T")

Handle: TypeAlias = Callable[[Any], Awaitable[Any]]
"""The handler of an API, which takes the request or a part of it."""

Gate: TypeAlias = Callable[[BrokerParts, RequestContext, Any, Handle], Awaitable[Any]]

DENIED: dict[AclResourceType, ErrorCode] = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""Type of the resource → the code of the refusal."""

TOPIC_DENIED = DENIED[AclResourceType.TOPIC]
GROUP_DENIED = DENIED[AclResourceType.GROUP]
CLUSTER_DENIED = DENIED[AclResourceType.CLUSTER]
TRANSACTIONAL_ID_DENIED = DENIED[AclResourceType.TRANSACTIONAL_ID]

DENIED_TEXT: dict[ErrorCode, str] = {
    TOPIC_DENIED: "Topic authorization failed.",
    GROUP_DENIED: "Group authorization failed.",
    CLUSTER_DENIED: "Cluster authorization failed.",
    TRANSACTIONAL_ID_DENIED: "Transactional Id authorization failed.",
}
"""Kafka's texts, which clients may show."""


async def open_gate(parts: BrokerParts, context: RequestContext, request: Any, handle: Handle) -> Any:
    """The gate of an API that needs no right, or whose handler asks by itself."""
    return await handle(request)


def may_on_cluster(context: RequestContext, operation: AclOperation, *, is_named: bool = True) -> bool:
    return context.may(operation, AclResourceType.CLUSTER, CLUSTER_NAME, is_named=is_named)


async def parted(is_allowed: Callable[[T], bool], items: Iterable[T]) -> tuple[list[T], list[T]]:
    """Returns the items that are allowed, and the others."""
    allowed: list[T] = []
    denied: list[T] = []
    await in_turns(lambda item: (allowed if is_allowed(item) else denied).append(item), items)
    return allowed, denied


def topic_name(parts: BrokerParts, name: str | None, topic_id: bytes) -> str | None:
    """Returns the name of the topic that a request names by name or by id; None if there is no such id."""
    if topic_id == NO_UUID:
        return name
    topic = parts.topics.by_id(topic_id)
    return None if topic is None else topic.name
