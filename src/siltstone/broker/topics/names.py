"""Names of topics: which are illegal, in Kafka's words, and which are the broker's own. The rule itself is the
metadata's (``metadata.topic_names``).

Why a request about topics is refused, where the metadata has no word for it: one class per cause.

Texts are Kafka's where people know them.
"""

from siltstone.metadata.decisions.topics import is_topic_name
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import TOPIC_NAME_CHARACTERS_MAX

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
"""Consumers that subscribe to a pattern leave them out, by the flag in the metadata."""


def why_illegal(name: str) -> str | None:
    """None: it may be a topic's name."""
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


class UnknownTopic(InvalidRequest):
    """There is none of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no topic {name[:300]!r}: create it, or correct the name")


class UnknownTopicId(InvalidRequest):
    """There is none of that id: it was deleted, and perhaps made again."""

    def __init__(self, topic_id: bytes) -> None:
        super().__init__(f"there is no topic with id {topic_id.hex()}: look up its id again")


class InvalidPartitionCount(InvalidRequest):
    """A topic has at least one partition, and never loses one."""


class InvalidReplicationFactor(InvalidRequest):
    """A topic has at least one replica."""


class InvalidReplicaAssignment(InvalidRequest):
    """Partitions assigned by hand are numbered without gap, and every replica is at a broker that exists."""


class TooManyPartitionsAtOnce(InvalidRequest):
    """More than one request may ask for."""


class InternalTopic(InvalidRequest):
    """The broker's own topics are neither deleted nor given partitions: groups would lose their offsets."""

    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name} is the broker's own: leave it as it is")
