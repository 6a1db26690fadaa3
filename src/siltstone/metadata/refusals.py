"""The refusals of commands: one class per cause. ``code`` is AutoMQ's name of the cause, where AutoMQ has one."""

from typing import ClassVar

from siltstone.model.errors import Fenced, InvalidRequest, Stale, Unavailable


class Refusal(Exception):
    """The base of every refusal, so that ``except Refusal`` catches them all."""

    code: ClassVar[str]


class StreamNotExist(Refusal, InvalidRequest):
    code = "STREAM_NOT_EXIST"


class StreamFenced(Refusal, Fenced):
    code = "STREAM_FENCED"


class StreamEpochUnknown(Refusal, InvalidRequest):
    """The epoch in the command is higher than the stream's epoch."""

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
    """The new objects do not hold exactly the live offsets of the compacted ones."""

    code = "COVERAGE_NOT_MATCHED"


class TopicConfiguredOtherwise(Refusal, Stale):
    """The command was based on a topic configuration that has changed since, or the topic was deleted."""

    code = "TOPIC_CONFIGURED_OTHERWISE"


class CompactionTooLate(Refusal, Stale):
    """The commit of a key compaction comes after the time from which its delete horizons were computed."""

    code = "COMPACTION_TOO_LATE"


class NodeEpochNotExist(Refusal, InvalidRequest):
    code = "NODE_EPOCH_NOT_EXIST"


class NodeEpochExpired(Refusal, Fenced):
    code = "NODE_EPOCH_EXPIRED"


class NodeFenced(Refusal, Fenced):
    """The node is being failed over: only the process that replays its write-ahead log may write for it."""

    code = "NODE_FENCED"


class JobNotRunning(Refusal, Fenced):
    """The job has finished, or another driver took it over after its lease had expired."""

    code = "JOB_NOT_RUNNING"


class JobRunning(Refusal, Unavailable):
    """Another driver is running a job of this kind."""

    code = "JOB_RUNNING"


class CommandMalformed(Refusal, InvalidRequest):
    """The command contradicts itself or exceeds a limit; it is refused whatever the image contains."""

    code = "INVALID_REQUEST"


class ObjectNotDestroyed(Refusal, InvalidRequest):
    """The object to forget is PREPARED or COMMITTED; only DESTROYED objects may be forgotten."""

    code = "OBJECT_NOT_DESTROYED"


class GracePeriodRunning(Refusal, Unavailable):
    """The object was destroyed less than the grace period ago: a reader with an older image may still read it."""

    code = "GRACE_PERIOD_RUNNING"


class TopicAlreadyExists(Refusal, InvalidRequest):
    code = "TOPIC_ALREADY_EXISTS"


class TopicNotExist(Refusal, InvalidRequest):
    code = "TOPIC_NOT_EXIST"


class InvalidTopicName(Refusal, InvalidRequest):
    code = "INVALID_TOPIC_NAME"


class TopicNameCollides(InvalidTopicName):
    """The name equals another topic's name once ``.`` is replaced by ``_``, as it is in the names of metrics."""

    code = "TOPIC_NAME_COLLIDES"


class TooManyPartitions(Refusal, InvalidRequest):
    """The command adds more partitions than one command may add."""

    code = "TOO_MANY_PARTITIONS"


class PartitionCountNotLarger(Refusal, InvalidRequest):
    """The new number of partitions is not larger than the current one: partitions are never removed."""

    code = "PARTITION_COUNT_NOT_LARGER"


class StreamOfTopic(Refusal, InvalidRequest):
    """The stream belongs to a partition, so it is deleted with its topic, not by itself."""

    code = "STREAM_OF_TOPIC"


class NodeLogBehind(Refusal, InvalidRequest):
    """The node starts with another write-ahead log than the one it last appended to while it has open streams, so
    records that only that log holds would be lost. ``log_epoch`` is the node epoch under which that log was used."""

    code = "NODE_LOG_BEHIND"

    def __init__(self, message: str, log_epoch: int) -> None:
        super().__init__(message)
        self.log_epoch = log_epoch
