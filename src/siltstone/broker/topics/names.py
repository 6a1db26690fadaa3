"""Topic names: why one is illegal, in Kafka's words, and which topics are internal. The rule itself is in
``metadata.decisions.topics``.

Refusals of requests about topics that the metadata does not make: one class per cause, with Kafka's text if it has one.
"""

from siltstone.metadata.decisions.topics import is_topic_name
from siltstone.model.audit import AUDIT_TOPIC
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import TOPIC_NAME_CHARACTERS_MAX

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, AUDIT_TOPIC, "__share_group_state"})
"""Metadata marks them as internal, so that consumers that subscribe to a pattern leave them out."""


def why_illegal(name: str) -> str | None:
    """Says why ``name`` cannot be the name of a topic; None if it can."""
    if is_topic_name(name):
        return None
    return f"Topic name is invalid: {_reason(name)}"


def _reason(name: str) -> str:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > TOPIC_NAME_CHARACTERS_MAX:
        begin = name[:TOPIC_NAME_CHARACTERS_MAX]
        return f"the length of '{begin}…' is longer than the max allowed length {TOPIC_NAME_CHARACTERS_MAX}"
    return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


class TopicDenied(InvalidRequest):
    """The client lacks a right on the topic, which may not even exist."""

    def __init__(self) -> None:
        super().__init__("Topic authorization failed.")


class UnknownTopic(InvalidRequest):
    """No topic has that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no topic {name[:300]!r}: create it, or correct the name")


class UnknownTopicId(InvalidRequest):
    """No topic has that id: the topic was deleted, and perhaps created again under another id."""

    def __init__(self, topic_id: bytes) -> None:
        super().__init__(f"there is no topic with id {topic_id.hex()}: look up its id again")


class InvalidPartitionCount(InvalidRequest):
    """The number of partitions is below one, or not larger than it is."""


class InvalidReplicationFactor(InvalidRequest):
    """The number of replicas is below one."""


class InvalidReplicaAssignment(InvalidRequest):
    """The assigned partitions are not numbered without gaps, or a replica is assigned to a broker that does not
    exist."""


class NoReassignment(InvalidRequest):
    """The partition is not being moved, so there is nothing to cancel."""


class TooManyPartitionsAtOnce(InvalidRequest):
    """The request would create more partitions than one request may."""


class InternalTopic(InvalidRequest):
    """Internal topics are not deleted and get no partitions: groups would lose their offsets."""

    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name} is internal: it cannot be deleted and gets no partitions")
