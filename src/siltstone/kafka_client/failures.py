"""What can go wrong between a command and a broker, one class per cause; each text says what to do."""

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import InvalidRequest, Unavailable

# -- the connection ------------------------------------------------------------------------------------------


class InvalidAddress(InvalidRequest):
    """What should be HOST:PORT is not."""


class BrokerNotThere(Unavailable):
    """Nobody answers at the address."""


class BrokerGone(Unavailable):
    """The connection was closed, or broke, before the answer was whole."""


class BrokerSilent(Unavailable):
    """No answer within the time limit."""


class NotKafka(InvalidRequest):
    """Somebody answers, in another language."""


class RequestNotSpoken(InvalidRequest):
    """The broker does not know a request that is needed, or not in a version that we write."""


# -- the answer ----------------------------------------------------------------------------------------------


class KafkaRefusal(InvalidRequest):
    """The broker says no, and will not change its mind."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class KafkaNotReady(Unavailable):
    """The broker says not now: a leader or a coordinator moves, or is not there yet."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class TopicUnknown(InvalidRequest):
    """There is no topic of that name."""


class PartitionUnknown(InvalidRequest):
    """The topic has no partition of that number."""


class GroupUnknown(InvalidRequest):
    """There is no consumer group of that name."""


NOT_READY = frozenset({
    ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_CONTROLLER,
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.ELECTION_NOT_NEEDED,
})  # fmt: skip
"""Codes that pass by themselves [Kafka: RetriableException]."""

_WORDS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed; its log says why",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.TOPIC_ALREADY_EXISTS: "there is a topic of that name already",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "that cannot be done with an internal topic, or that name cannot be",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the partition has no such offset",
    ErrorCode.POLICY_VIOLATION: "the topic's cleanup.policy, or a policy of the broker, does not allow it",
    ErrorCode.MESSAGE_TOO_LARGE: "larger than the topic takes (max.message.bytes)",
    ErrorCode.NON_EMPTY_GROUP: "the group has members: stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members now: stop them first",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.TOPIC_DELETION_DISABLED: "the broker does not allow topics to be deleted (delete.topic.enable)",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this client may not do that with this topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this client may not do that with this group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this client may not do that with this cluster",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "the broker has lost what it knew of this producer",
}


def words_of(code: ErrorCode, message: str | None = None) -> str:
    """What the broker says, or what its number means, always with Kafka's name for it."""
    said = message or _WORDS.get(code) or "refused"
    return f"{said.rstrip('.')} ({code.name})"


def refusal(code_number: int, subject: str, message: str | None = None) -> KafkaRefusal | KafkaNotReady:
    """``subject``: what was asked about, ``topic flights``."""
    code = ErrorCode(code_number) if code_number in _KNOWN else ErrorCode.UNKNOWN_SERVER_ERROR
    text = f"{subject}: {words_of(code, message)}"
    return KafkaNotReady(code, text) if code in NOT_READY else KafkaRefusal(code, text)


def refuse_error(code_number: int, subject: str, message: str | None = None) -> None:
    """Raises KafkaRefusal or KafkaNotReady, unless the code is 0."""
    if code_number:
        raise refusal(code_number, subject, message)


_KNOWN = frozenset(int(code) for code in ErrorCode)
