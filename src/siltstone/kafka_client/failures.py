"""The errors of the Kafka client, one class per cause, and the texts for Kafka's error codes."""

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import CorruptData, InvalidRequest, Unavailable

# -- the connection ------------------------------------------------------------------------------------------


class InvalidAddress(InvalidRequest):
    """The text of a broker's address is not HOST:PORT."""


class BrokerNotThere(Unavailable):
    """No connection to the address can be made."""


class BrokerElsewhere(Unavailable):
    """A request goes to another broker than the one of this process, which is the only one that can be asked."""


class BrokerGone(Unavailable):
    """The connection was closed, or broke, before the response was complete."""


class BrokerSilent(Unavailable):
    """The broker did not answer within the time limit."""


class NotKafka(InvalidRequest):
    """The server at the address answers in another protocol than Kafka's."""


class BrokerWantsTls(NotKafka):
    """The server at the address speaks TLS, and this client does not."""


class TlsFailed(InvalidRequest):
    """No connection with TLS can be made to the broker, until a setting or a certificate is corrected."""


class BrokerNotTrusted(TlsFailed):
    """The broker's certificate is not from an authority that this client trusts, or has expired."""


class BrokerOfAnotherName(TlsFailed):
    """The broker's certificate is not for the host that this client connects to."""


class BrokerWithoutTls(TlsFailed):
    """The server at the address does not speak TLS."""


class ClientNotTrusted(TlsFailed):
    """The broker wants a certificate from this client, or does not trust the one that it shows."""


class LoginFailed(InvalidRequest):
    """This client cannot log in to the broker, until a person corrects its settings."""


class LoginRefused(LoginFailed):
    """The broker refuses the name, the password or both."""


class MechanismNotOffered(LoginFailed):
    """The listener has no login, or none by the mechanism of this client."""


class BrokerNotProved(LoginFailed):
    """The broker does not prove that it knows the password, too: it may be another one."""


class RequestNotSpoken(InvalidRequest):
    """The broker does not support a request that is needed, or no version of it that this client writes."""


# -- the response --------------------------------------------------------------------------------------------


class KafkaRefusal(InvalidRequest):
    """The broker refused the request with an error that retrying does not cure; ``code`` is Kafka's."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class KafkaNotReady(Unavailable):
    """The broker refused the request with a transient error, such as a leader or coordinator that moves; ``code`` is
    Kafka's."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class RecordsDamaged(CorruptData):
    """The broker cannot read records of a partition, because its data is damaged (CORRUPT_MESSAGE)."""

    def __init__(self, partition: object, offset: int | None) -> None:
        where = "records" if offset is None else f"the record at offset {offset}"
        super().__init__(
            f"partition {partition}: the broker cannot read {where}, because its data is damaged or missing "
            "(CORRUPT_MESSAGE): its log says which object to restore. Siltstone reads on behind the damage if the "
            "topic has siltstone.damaged.read=skip"
        )
        self.offset = offset


class TopicUnknown(InvalidRequest):
    """The cluster has no topic of that name."""


class PartitionUnknown(InvalidRequest):
    """The topic has no partition of that number."""


class GroupUnknown(InvalidRequest):
    """The cluster has no consumer group of that name."""


class TransactionUnknown(InvalidRequest):
    """The cluster has no transactional id of that name, or the partition no open transaction at that offset."""


NOT_READY = frozenset({
    ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_CONTROLLER,
    ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.ELECTION_NOT_NEEDED,
})  # fmt: skip
"""Codes of transient errors, which are retried [Kafka: RetriableException]."""

_RIGHT = "siltstone acls add, where the store is, allows it"
"""What to do about a missing right."""

_SAYS_NOTHING = "authorization failed."
"""The end of Kafka's texts for missing rights, which our own replace."""

_WORDS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed; its log says why",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic of that name exists already",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the name is not allowed, or the request is not allowed for an internal topic",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the partition has no such offset",
    ErrorCode.POLICY_VIOLATION: "the topic's cleanup.policy, or a policy of the broker, does not allow it",
    ErrorCode.MESSAGE_TOO_LARGE: "larger than the topic allows (max.message.bytes)",
    ErrorCode.NON_EMPTY_GROUP: "the group has members: stop them first",
    ErrorCode.UNKNOWN_MEMBER_ID: "the group has members now: stop them first",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group's members share partitions in another way than range",
    ErrorCode.INVALID_GROUP_ID: "a group has a name that is not empty",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.TOPIC_DELETION_DISABLED: "the broker does not allow topics to be deleted (delete.topic.enable)",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: f"this client may not do that with this topic; {_RIGHT}",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: f"this client may not do that with this group; {_RIGHT}",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: f"this client may not use this transactional id; {_RIGHT}",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: f"this client may not do that with this cluster; {_RIGHT}",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "the broker has lost the sequence numbers of this producer",
}


def words_of(code: ErrorCode, message: str | None = None) -> str:
    """Returns the broker's message, or else our words for the code, followed by Kafka's name of the code."""
    told = None if message is not None and message.endswith(_SAYS_NOTHING) else message
    said = told or _WORDS.get(code) or message or "refused"
    return f"{said.rstrip('.')} ({code.name})"


def refusal(code_number: int, subject: str, message: str | None = None) -> KafkaRefusal | KafkaNotReady:
    """Returns the exception for an error code; ``subject`` is what the request was about, such as ``topic flights``."""
    code = ErrorCode(code_number) if code_number in _KNOWN else ErrorCode.UNKNOWN_SERVER_ERROR
    is_named = message is not None and f"'{subject.rpartition(' ')[2]}'" in message
    text = words_of(code, message) if is_named else f"{subject}: {words_of(code, message)}"
    return KafkaNotReady(code, text) if code in NOT_READY else KafkaRefusal(code, text)


def refuse_error(code_number: int, subject: str, message: str | None = None) -> None:
    """Raises KafkaRefusal or KafkaNotReady, unless the code is 0."""
    if code_number:
        raise refusal(code_number, subject, message)


_KNOWN = frozenset(int(code) for code in ErrorCode)
