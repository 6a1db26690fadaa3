"""The resources that can have configurations, topics and brokers, for the three APIs that read and write them."""

from enum import IntEnum

from siltstone.broker.parts import BrokerParts
from siltstone.broker.topics.names import UnknownTopic, why_illegal
from siltstone.broker.topics.registry import Topic
from siltstone.metadata.refusals import InvalidTopicName
from siltstone.model.errors import InvalidRequest


class ResourceType(IntEnum):
    """Kinds of resources. The numbers are the protocol's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def topic_of(parts: BrokerParts, name: str) -> Topic:
    """Returns the topic of that name. Raises InvalidRequest, InvalidTopicName, UnknownTopic."""
    if not name:
        raise InvalidRequest("Default topic resources are not allowed.")
    if why := why_illegal(name):
        raise InvalidTopicName(why)
    topic = parts.topics.by_name(name)
    if topic is None:
        raise UnknownTopic(name)
    return topic


def check_broker_name(parts: BrokerParts, name: str) -> None:
    """Raises InvalidRequest unless ``name`` is the number of this node (item 22)."""
    if name != str(parts.node_id):
        raise InvalidRequest(
            f"Unexpected broker id, expected {parts.node_id} or empty string, but received {name[:100]}"
        )


def check_group_name(name: str) -> None:
    """Raises InvalidRequest for the empty name."""
    if not name:
        raise InvalidRequest("Default group resources are not allowed.")


def no_such_resource(resource_type: int) -> InvalidRequest:
    known = {kind.value: kind.name for kind in ResourceType}
    if resource_type not in known:
        return InvalidRequest(f"Unknown resource type {resource_type}: topics (2) and brokers (4) are known")
    return InvalidRequest(
        f"{known[resource_type]} resources have no configuration here: topics (2) and brokers (4) have one"
    )
