"""Why a request about topics is refused, where the metadata has no word for it: one class per cause.

Texts are Kafka's where people know them.
"""

from siltstone.model.errors import InvalidRequest


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
