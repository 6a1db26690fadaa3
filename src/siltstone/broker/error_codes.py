"""The one table from the classes of our errors to Kafka's error codes.

An error has the code of its most special class in the table. An error of no class in the table is a bug of the broker:
the client gets UNKNOWN_SERVER_ERROR, on which clients do not retry, and the log gets the traceback.
"""

import logging

from siltstone.broker.backlog.verdicts import BacklogQuotaExceeded
from siltstone.broker.group_configs import InvalidGroupConfig
from siltstone.broker.partitions.admission import KeyMissing, TimestampRefused, TransactionWithoutProducer
from siltstone.broker.partitions.partitions import PartitionGone
from siltstone.broker.partitions.producer_state import OutOfOrderSequence, StaleProducerEpoch
from siltstone.broker.partitions.transaction_state import (
    CoordinatorFenced,
    MarkerOnItsWay,
    NotInTransaction,
    OtherTransaction,
    TooManyAborted,
    TransactionOpen,
)
from siltstone.broker.quotas.throttling import MutationsThrottled
from siltstone.broker.topics.names import (
    InternalTopic,
    InvalidPartitionCount,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    NoReassignment,
    TooManyPartitionsAtOnce,
    TopicDenied,
    UnknownTopic,
    UnknownTopicId,
)
from siltstone.kafka_protocol import batch_errors
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.metadata.refusals import (
    InvalidTopicName,
    NodeSuspended,
    NoLiveNode,
    NotLeader,
    PartitionCountNotLarger,
    PartitionNotExist,
    StoreFull,
    StreamNotClosed,
    StreamNotExist,
    TargetUnfit,
    TooManyPartitions,
    TooManyQuotas,
    TooManyUsers,
    TopicAlreadyExists,
    TopicNotExist,
)
from siltstone.model.errors import CorruptData, Fenced, InvalidRequest, Stale, Unavailable
from siltstone.object_store.buckets import UnknownBucket
from siltstone.object_store.port import StoreDenied
from siltstone.stream_engine.errors import (
    AppendTooLarge,
    DamagedRange,
    EngineNotRunning,
    EngineOverloaded,
    OffsetBeyondEnds,
    StreamAlreadyOpen,
    StreamHandleClosed,
    StreamHeld,
)
from siltstone.topic_configs.values import InvalidTopicConfig

log = logging.getLogger(__name__)

MESSAGE_CHARACTERS_MAX = 1_000

CODES: dict[type[BaseException], ErrorCode] = {
    # a producer's batch
    batch_errors.TruncatedBatch: ErrorCode.CORRUPT_MESSAGE,
    batch_errors.BatchLengthWrong: ErrorCode.CORRUPT_MESSAGE,
    batch_errors.BatchChecksumWrong: ErrorCode.CORRUPT_MESSAGE,
    batch_errors.MalformedRecords: ErrorCode.INVALID_RECORD,
    batch_errors.DecompressionFailed: ErrorCode.INVALID_RECORD,
    batch_errors.NotOneBatch: ErrorCode.INVALID_RECORD,
    batch_errors.UnsupportedMagic: ErrorCode.INVALID_RECORD,
    batch_errors.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    batch_errors.OffsetNotZero: ErrorCode.INVALID_RECORD,
    batch_errors.RecordCountWrong: ErrorCode.INVALID_RECORD,
    batch_errors.ControlBatchFromClient: ErrorCode.INVALID_RECORD,
    batch_errors.LogAppendTimeFromClient: ErrorCode.INVALID_TIMESTAMP,
    batch_errors.SequenceMissing: ErrorCode.INVALID_RECORD,
    batch_errors.UnknownCodec: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    batch_errors.CodecNotAllowed: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    batch_errors.OffsetDeltaWrong: ErrorCode.INVALID_RECORD,
    batch_errors.DecompressedTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    TransactionWithoutProducer: ErrorCode.INVALID_RECORD,
    TimestampRefused: ErrorCode.INVALID_TIMESTAMP,
    KeyMissing: ErrorCode.INVALID_RECORD,
    StaleProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    TransactionOpen: ErrorCode.INVALID_TXN_STATE,
    NotInTransaction: ErrorCode.INVALID_TXN_STATE,
    TooManyAborted: ErrorCode.POLICY_VIOLATION,
    MarkerOnItsWay: ErrorCode.CONCURRENT_TRANSACTIONS,
    OtherTransaction: ErrorCode.CONCURRENT_TRANSACTIONS,
    CoordinatorFenced: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    BacklogQuotaExceeded: ErrorCode.POLICY_VIOLATION,
    AppendTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    # topics
    TopicDenied: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    TopicNotExist: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    TopicAlreadyExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    InvalidTopicConfig: ErrorCode.INVALID_CONFIG,
    InvalidGroupConfig: ErrorCode.INVALID_CONFIG,
    InvalidPartitionCount: ErrorCode.INVALID_PARTITIONS,
    PartitionCountNotLarger: ErrorCode.INVALID_PARTITIONS,
    InvalidReplicationFactor: ErrorCode.INVALID_REPLICATION_FACTOR,
    NoReassignment: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    InvalidReplicaAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    NoLiveNode: ErrorCode.INVALID_REPLICATION_FACTOR,
    TargetUnfit: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    StoreFull: ErrorCode.POLICY_VIOLATION,
    TooManyPartitions: ErrorCode.POLICY_VIOLATION,
    TooManyPartitionsAtOnce: ErrorCode.POLICY_VIOLATION,
    TooManyQuotas: ErrorCode.POLICY_VIOLATION,
    TooManyUsers: ErrorCode.POLICY_VIOLATION,
    InternalTopic: ErrorCode.INVALID_REQUEST,
    MutationsThrottled: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    # the state of the store
    DamagedRange: ErrorCode.CORRUPT_MESSAGE,  # consumers raise it; see decision 12
    OffsetBeyondEnds: ErrorCode.OFFSET_OUT_OF_RANGE,
    EngineOverloaded: ErrorCode.REQUEST_TIMED_OUT,
    EngineNotRunning: ErrorCode.KAFKA_STORAGE_ERROR,
    StreamHandleClosed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    StreamHeld: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    StreamAlreadyOpen: ErrorCode.KAFKA_STORAGE_ERROR,
    NotLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    StreamNotClosed: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    NodeSuspended: ErrorCode.NOT_LEADER_OR_FOLLOWER,  # until it has resumed, or another node leads
    PartitionGone: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    PartitionNotExist: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    StreamNotExist: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    StoreDenied: ErrorCode.KAFKA_STORAGE_ERROR,  # until permissions or credentials are mended
    UnknownBucket: ErrorCode.KAFKA_STORAGE_ERROR,
    # all others, by what the caller does next
    Unavailable: ErrorCode.KAFKA_STORAGE_ERROR,
    Stale: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Fenced: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    CorruptData: ErrorCode.KAFKA_STORAGE_ERROR,
    InvalidRequest: ErrorCode.INVALID_REQUEST,
}


def error_code(failure: BaseException) -> ErrorCode:
    """Returns the code that a client gets for ``failure``."""
    for kind in type(failure).__mro__:
        if (code := CODES.get(kind)) is not None:
            return code
    log.error("a bug of the broker: %r", failure, exc_info=failure)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def error_message(failure: BaseException) -> str:
    """Returns the text beside the code. It is cut, because it may repeat what the client sent, and a text in an answer
    has at most 32 KiB."""
    text = str(failure) or type(failure).__name__
    return text if len(text) <= MESSAGE_CHARACTERS_MAX else f"{text[:MESSAGE_CHARACTERS_MAX]}…"
