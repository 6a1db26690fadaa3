"""Defines the refusals of commands, one class for each cause. ``code`` is AutoMQ's name of the cause, where AutoMQ has
one."""

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


class FencedNode(Refusal, Fenced):
    """The node is being failed over: only the process that replays its write-ahead log may write for it."""

    code = "NODE_FENCED"


class NodeSuspended(Refusal, Unavailable):
    """The node was silent and is fenced in its present life: it has to resume, and may then ask again."""

    code = "NODE_SUSPENDED"


class FailoverUnderWay(Refusal, Unavailable):
    """A live node has claimed the failover of this node, or as many failovers are under way as are allowed."""

    code = "FAILOVER_UNDER_WAY"


class ClaimLost(Refusal, Fenced):
    """The process that would replay a node's log has not claimed the node's failover, or has lost the claim to another
    node."""

    code = "CLAIM_LOST"


class NodeInUse(Refusal, InvalidRequest):
    """The node is live, owns open streams or leads partitions."""

    code = "NODE_IN_USE"


class LastNode(Refusal, InvalidRequest):
    """No other node could take the partitions of the node to drain."""

    code = "LAST_NODE"


class NoLiveNode(Refusal, InvalidRequest):
    """No live node can lead the new partitions."""

    code = "NO_LIVE_NODE"


class TargetUnfit(Refusal, InvalidRequest):
    """The node that would lead the partition is unknown, fenced, being failed over or being drained."""

    code = "TARGET_UNFIT"


class NotLeader(Refusal, Stale):
    """Another node leads the partition, so this one may not open its streams."""

    code = "NOT_LEADER"


class MoveCancelled(Refusal, Stale):
    """The partition has no target any more, so its leader keeps it."""

    code = "MOVE_CANCELLED"


class PartitionNotExist(Refusal, InvalidRequest):
    code = "PARTITION_NOT_EXIST"


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


class ObjectPinned(Refusal, Unavailable):
    """A scan that was planned before the object was destroyed may still read it."""

    code = "OBJECT_PINNED"


class PinOutdated(Refusal, Stale):
    """The scan's pin was ended, so objects of its plan may have been deleted."""

    code = "SCAN_OUTDATED"


class TooManyScans(Refusal, Unavailable):
    """As many scans hold pins of their own as are allowed at a time."""

    code = "TOO_MANY_SCANS"


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
    """The command names more partitions than one command may."""

    code = "TOO_MANY_PARTITIONS"


class StoreFull(Refusal, InvalidRequest):
    """The store would have more partitions than the node that asks allows."""

    code = "STORE_FULL"


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


class NodeLogLost(Refusal, InvalidRequest):
    """The node starts with a write-ahead log that was declared lost. ``log_epoch`` is the newest epoch of such logs."""

    code = "NODE_LOG_LOST"

    def __init__(self, message: str, log_epoch: int) -> None:
        super().__init__(message)
        self.log_epoch = log_epoch


class BucketNotWritable(Refusal, Stale):
    """New objects may not be put into this bucket, or no longer: the caller reads the image and chooses again."""

    code = "BUCKET_NOT_WRITABLE"


class BucketNotListed(Refusal, InvalidRequest):
    code = "BUCKET_NOT_LISTED"


class BucketInUse(Refusal, InvalidRequest):
    code = "BUCKET_IN_USE"


class LastWritableBucket(Refusal, InvalidRequest):
    code = "LAST_WRITABLE_BUCKET"


class TooManyBuckets(Refusal, InvalidRequest):
    code = "TOO_MANY_BUCKETS"


class StrategyNotAvailable(Refusal, InvalidRequest):
    code = "STRATEGY_NOT_AVAILABLE"


class SinkBatchBehind(Refusal, InvalidRequest):
    """A later batch of the sink was started already."""

    code = "SINK_BATCH_BEHIND"


class SinkOfAnotherQuery(Refusal, InvalidRequest):
    code = "SINK_OF_ANOTHER_QUERY"


class SinkBatchUnfinished(Refusal, InvalidRequest):
    """The sink's batch before this one is an intent, so it is not finished."""

    code = "SINK_BATCH_UNFINISHED"


class SinkChanged(Refusal, InvalidRequest):
    """The mode of a sink, or the columns of a batch that was started, have changed."""

    code = "SINK_CHANGED"


class SinkPartsTooOld(Refusal, Stale):
    code = "SINK_PARTS_TOO_OLD"


class SinkTakenOver(Refusal, Fenced):
    code = "SINK_TAKEN_OVER"


class SinkStreamMoved(Refusal, Stale):
    """A stream has another end or another epoch than when the objects for it were written: write them again."""

    code = "SINK_STREAM_MOVED"


class SinkUnknown(Refusal, InvalidRequest):
    code = "SINK_UNKNOWN"


class TooManySinks(Refusal, InvalidRequest):
    code = "TOO_MANY_SINKS"


class UserExists(Refusal, InvalidRequest):
    code = "DUPLICATE_RESOURCE"


class UserNotExist(Refusal, InvalidRequest):
    code = "RESOURCE_NOT_FOUND"


class UserNameNotAllowed(Refusal, InvalidRequest):
    code = "UNACCEPTABLE_CREDENTIAL"


class CredentialNotAllowed(Refusal, InvalidRequest):
    """A credential has too few or too many rounds, no salt, or keys of the wrong length."""

    code = "UNACCEPTABLE_CREDENTIAL"


class TooManyUsers(Refusal, InvalidRequest):
    code = "POLICY_VIOLATION"


class AclNotAllowed(Refusal, InvalidRequest):
    """A binding, or a principal, that no store may have."""

    code = "ACL_NOT_ALLOWED"


class TooManyAcls(Refusal, InvalidRequest):
    code = "TOO_MANY_ACLS"


class QuotaNotAllowed(Refusal, InvalidRequest):
    """An entity, or a limit, that no store may have."""

    code = "QUOTA_NOT_ALLOWED"


class TooManyQuotas(Refusal, InvalidRequest):
    code = "TOO_MANY_QUOTAS"


class LevelNotKnown(Refusal, InvalidRequest):
    """This program does not know the level to which the store is to be raised."""

    code = "LEVEL_NOT_KNOWN"


class LevelNeverFalls(Refusal, InvalidRequest):
    code = "LEVEL_NEVER_FALLS"


class NodesTooOld(Refusal, InvalidRequest):
    """Live nodes run programs that do not know the level. ``node_ids`` are theirs."""

    code = "NODES_TOO_OLD"

    def __init__(self, text: str, node_ids: tuple[int, ...] = ()) -> None:
        super().__init__(text)
        self.node_ids = node_ids


class LevelTooLow(Refusal, InvalidRequest):
    """The command would write a record of a level that the store does not have yet."""

    code = "LEVEL_TOO_LOW"


class NoSuperUser(Refusal, InvalidRequest):
    """Authorization would be on, and no super user could change it."""

    code = "NO_SUPER_USER"
