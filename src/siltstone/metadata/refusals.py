"""Why a command was refused: one class per cause. ``code`` is AutoMQ's name for it, where AutoMQ has one."""

from typing import ClassVar

from siltstone.model.errors import Fenced, InvalidRequest, Stale, Unavailable


class Refusal(Exception):
    """Mixed into the classes below, so that ``except Refusal`` catches them all."""

    code: ClassVar[str]


class StreamNotExist(Refusal, InvalidRequest):
    code = "STREAM_NOT_EXIST"


class StreamFenced(Refusal, Fenced):
    code = "STREAM_FENCED"


class StreamEpochUnknown(Refusal, InvalidRequest):
    """The epoch is higher than the stream's (STREAM_INNER_ERROR in AutoMQ)."""

    code = "STREAM_INNER_ERROR"


class StreamNotOpened(Refusal, InvalidRequest):
    code = "STREAM_NOT_OPENED"


class StreamNotClosed(Refusal, InvalidRequest):
    code = "STREAM_NOT_CLOSED"


class OffsetNotMatched(Refusal, InvalidRequest):
    code = "OFFSET_NOT_MATCHED"


class ObjectNotExist(Refusal, InvalidRequest):
    code = "OBJECT_NOT_EXIST"


class CompactedObjectsNotFound(Refusal, Stale):
    code = "COMPACTED_OBJECTS_NOT_FOUND"


class CoverageNotMatched(Refusal, Stale):
    """The new objects do not cover exactly what the compacted ones hold alive."""

    code = "COVERAGE_NOT_MATCHED"


class TopicConfiguredOtherwise(Refusal, Stale):
    """A plan followed from a configuration that is over, or of a topic that is gone."""

    code = "TOPIC_CONFIGURED_OTHERWISE"


class CompactionTooLate(Refusal, Stale):
    """The time limits of tombstones would begin before the commit that keeps them."""

    code = "COMPACTION_TOO_LATE"


class NodeEpochNotExist(Refusal, InvalidRequest):
    code = "NODE_EPOCH_NOT_EXIST"


class NodeEpochExpired(Refusal, Fenced):
    code = "NODE_EPOCH_EXPIRED"


class NodeFenced(Refusal, Fenced):
    """The node is being failed over: only the replayer of its WAL may write for it."""

    code = "NODE_FENCED"


class JobNotRunning(Refusal, Fenced):
    """The job was finished, or taken over after its lease had passed."""

    code = "JOB_NOT_RUNNING"


class JobRunning(Refusal, Unavailable):
    """Another driver runs a job of this kind."""

    code = "JOB_RUNNING"


class CommandMalformed(Refusal, InvalidRequest):
    """The command contradicts itself or passes a limit; it would be refused whatever the image is."""

    code = "INVALID_REQUEST"


class ObjectNotDestroyed(Refusal, InvalidRequest):
    """Only destroyed objects may be forgotten: committed metadata may name this one."""

    code = "OBJECT_NOT_DESTROYED"


class GracePeriodRunning(Refusal, Unavailable):
    """The object was destroyed too short a time ago: a reader with an older image may still read it."""

    code = "GRACE_PERIOD_RUNNING"


class TopicAlreadyExists(Refusal, InvalidRequest):
    code = "TOPIC_ALREADY_EXISTS"


class TopicNotExist(Refusal, InvalidRequest):
    code = "TOPIC_NOT_EXIST"


class InvalidTopicName(Refusal, InvalidRequest):
    code = "INVALID_TOPIC_NAME"


class TopicNameCollides(InvalidTopicName):
    """It differs from another topic's name in nothing but ``.`` and ``_``, which are one in names of metrics."""

    code = "TOPIC_NAME_COLLIDES"


class TooManyPartitions(Refusal, InvalidRequest):
    """More than one command may add."""

    code = "TOO_MANY_PARTITIONS"


class PartitionCountNotLarger(Refusal, InvalidRequest):
    """Partitions are added, never taken away."""

    code = "PARTITION_COUNT_NOT_LARGER"


class StreamOfTopic(Refusal, InvalidRequest):
    """The stream is a partition's: it is deleted with its topic, not by itself."""

    code = "STREAM_OF_TOPIC"


class NodeLogBehind(Refusal, InvalidRequest):
    """The write-ahead log that the node begins with is not the one its last life appended to, and streams are still
    open: what only that one holds would be lost. ``log_epoch`` is that life's."""

    code = "NODE_LOG_BEHIND"

    def __init__(self, message: str, log_epoch: int) -> None:
        super().__init__(message)
        self.log_epoch = log_epoch
