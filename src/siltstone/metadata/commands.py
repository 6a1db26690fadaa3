"""The commands are values: every change that a node or a driver of maintenance may ask of the metadata.

A docstring begins with → and the result. ``node_epoch`` and ``stream_epoch`` fence: a command with a lower epoch than
the registered one is refused. Maintenance has no node; it is fenced by its job (``job_id``), which must be running when
it commits. Next: ``refusals``, and ``decisions``, which decides each command.
"""

from typing import Generic, TypeVar

import msgspec

from siltstone.metadata.entities import (
    GivenUpPartition,
    NodeListener,
    NodeRegistration,
    OpenedPartition,
    StreamMetadata,
    TopicMetadata,
)
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.model.objects import DEFAULT_BUCKET_ID, ObjectRange
from siltstone.model.segments import ClosedSegment

R = TypeVar("R")


class Command(msgspec.Struct, Generic[R], frozen=True):
    """``MetadataClient.execute`` answers an R or raises the Refusal."""


class RegisterNode(Command[NodeRegistration], frozen=True):
    """→ NodeRegistration. Registers a process under a node id. The node's epoch is raised, which fences the process
    that was registered before.

    ``incarnation`` is a random token of this start: repeating the command with the same token changes nothing, and two
    processes that start at once cannot get the same epoch. ``failover``: the process replays a dead node's write-ahead
    log on that node's behalf. It must have claimed the failover (ClaimFailover), and gives its own incarnation; while
    it lives, the node itself is refused with FailoverUnderWay. ``listeners`` and ``rack`` are for clients and for the
    placement of partitions; a failover keeps the dead node's.

    ``log_epoch`` is the node epoch under which the write-ahead log of this start was last used; 0: never used. While
    the node has open streams, a ``log_epoch`` below NodeMetadata.log_epoch is refused with NodeLogBehind, unless
    NodeMetadata.log_epoch equals ``lost_log_epoch``, the epoch whose log an operator has declared lost. None: this
    process has no log, and the check is left out.
    """

    node_id: int
    incarnation: str
    wal_location: str
    failover: bool = False
    log_epoch: int | None = None
    lost_log_epoch: int = 0
    listeners: tuple[NodeListener, ...] = ()
    rack: str | None = None


class FenceNode(Command[None], frozen=True):
    """→ None. The node was silent for a session in its life ``node_epoch``: from now on its commands are refused with
    NodeSuspended. Refused when the node is in another life, or is being failed over: a recoverer sends no beats in the
    dead node's name, and is fenced with the node that claimed. Idempotent."""

    node_id: int
    node_epoch: int


class ResumeNode(Command[None], frozen=True):
    """→ None. The fenced process continues in the same life. Refused with FencedNode once the node's failover was
    claimed, or another process has registered: then the process has to stop. Idempotent."""

    node_id: int
    node_epoch: int
    incarnation: str


class DrainNode(Command[None], frozen=True):
    """→ None. The node gets no more partitions; with ``is_draining`` false it gets them again, as after a new
    registration. Refused with LastNode when no other node could take its partitions. Idempotent."""

    node_id: int
    is_draining: bool = True


class UnregisterNode(Command[None], frozen=True):
    """→ None. Forgets the node. Refused with NodeInUse while it is live, owns open streams or leads partitions. If its
    id is registered again, the new epoch is higher than every epoch of the forgotten node. Idempotent."""

    node_id: int


class ClaimFailover(Command[None], frozen=True):
    """→ None. ``node_id`` claims the failover of ``dead_node_id``, which must be fenced, or withdraws its claim.
    Refused with FailoverUnderWay while another live node has the claim, while this node has another one, and while
    FAILOVERS_MAX are under way. Idempotent."""

    node_id: int
    node_epoch: int
    dead_node_id: int
    gives_back: bool = False


class GiveUpLog(Command[NodeRegistration], frozen=True):
    """→ NodeRegistration, with the streams that are still open. A person gives up the write-ahead log of a node that is
    not live: its streams continue at their committed ends, and records that only that log held are lost.

    Raises the node's epoch above ``node_epoch``, the life that the person saw, as a failover does, so that a process
    which is not dead after all is fenced. At most STREAMS_CLOSED_AT_ONCE_MAX streams are closed; the command is
    repeated with the same ``incarnation``, a random token, until none is open. The node itself is refused with
    NodeLogLost when it starts with one of these logs, since its start would delete records that are nowhere else.
    Refused with NodeInUse, FailoverUnderWay, NodeEpochExpired."""

    node_id: int
    node_epoch: int
    incarnation: str


class CreateStream(Command[int], frozen=True):
    """→ stream id (int). The new stream is closed and empty; its epoch is -1."""

    node_id: int
    node_epoch: int
    tags: dict[str, str] = {}


class OpenStream(Command[StreamMetadata], frozen=True):
    """→ StreamMetadata. ``stream_epoch`` must be the current epoch (the owner reopens the stream) or a higher one
    (another node takes the closed stream over). A stream of a partition is opened by the partition's leader only
    (NotLeader); a node that opens a partition without a leader becomes its leader."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int


class OpenPartition(Command[OpenedPartition], frozen=True):
    """→ OpenedPartition. The leader opens both streams of the partition, each under the epoch after its last; streams
    that it has open keep their epochs. Refused with NotLeader for any other node. Idempotent."""

    node_id: int
    node_epoch: int
    topic_id: str
    index: int


class CloseStream(Command[None], frozen=True):
    """→ None. The owner closes the stream. Idempotent."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int


class TrimStream(Command[None], frozen=True):
    """→ None. Moves the start offset forward, even past the committed end. Changes no object."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int
    start_offset: int


class RollSegments(Command[None], frozen=True):
    """→ None. Closes segments: each of ``rolled`` is a stream id and the segment to close. A node closes segments of
    streams that it owns, and their offsets need not be committed yet; a job closes segments of committed offsets only.
    The start offset of each segment is set to the end of the stream's last closed one. Segments that are closed
    already, and deleted streams, are skipped.

    Exactly one of ``node_id`` (with ``node_epoch``) and ``job_id`` is given.
    """

    rolled: tuple[tuple[int, ClosedSegment], ...]
    node_id: int | None = None
    node_epoch: int | None = None
    job_id: int | None = None


class TopicTrims(msgspec.Struct, frozen=True):
    """``trims``: pairs of stream id and new start offset. ``configs``: the topic configuration from which retention
    derived them."""

    topic_id: str
    configs: dict[str, str]
    trims: tuple[tuple[int, int], ...]


class TrimStreams(Command[tuple[int, ...]], frozen=True):
    """→ ids of the streams that were trimmed. Retention, under a job: moves start offsets forward, at most to the
    committed end, and changes no object. Streams that already begin at or after that offset, and topics that were
    deleted or whose configuration has changed since, are skipped; the others are trimmed all the same."""

    job_id: int
    topics: tuple[TopicTrims, ...]


class DeleteStream(Command[None], frozen=True):
    """→ None. The stream must be closed and belong to no topic; any node may delete it. Idempotent. Its stream objects
    are destroyed at once; its blocks in stream set objects are removed by compaction and garbage collection."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int


class PrepareObjects(Command[int], frozen=True):
    """→ first object id (int); the ids are contiguous. Exactly one of ``node_id`` (with ``node_epoch``), ``job_id`` and
    ``sink_id`` (with ``sink_driver``, the token of the driver of the sink's unfinished batch) is given. ``bucket_ids``:
    the bucket of each object, if they are not all in ``bucket_id``. ``copies``: further buckets; each object is put
    into all of them; the object's own bucket may be among them. Refused with BucketNotWritable."""

    count: int
    time_limit_ms: int
    bucket_id: int = DEFAULT_BUCKET_ID
    node_id: int | None = None
    node_epoch: int | None = None
    job_id: int | None = None
    bucket_ids: tuple[int, ...] = ()
    sink_id: str | None = None
    sink_driver: str = ""
    copies: tuple[int, ...] = ()


class NewObject(msgspec.Struct, frozen=True):
    """An uploaded object to commit. Each of ``ranges`` has this object's id; they are sorted by stream id.
    ``bucket_ids``: of the buckets for which the object was prepared, the ones that have it; empty: the first has it."""

    object_id: int
    size_bytes: int
    ranges: tuple[ObjectRange, ...]
    bucket_ids: tuple[int, ...] = ()


class CommitUpload(Command[None], frozen=True):
    """→ None. Commits the objects of one sealed cache block atomically: at most one stream set object and any number
    of stream objects.

    Idempotent: when some of the ids were committed and none is PREPARED, this commit was done before, and the command
    succeeds with no records. That is checked before anything else, fences included: a refusal permits the caller to
    delete what it uploaded, so a commit that was done must never be refused (AutoMQ #1055, #1056).

    Ranges of deleted streams and ranges wholly below a start offset are dead on arrival: the object is committed
    without them, and destroyed by the same append when no range is left. ``data_time_ms`` 0 means the time of the
    decision. ``released``: prepared ids that were not needed; objects that are still PREPARED are destroyed.
    """

    node_id: int
    node_epoch: int
    stream_set_object: NewObject | None
    stream_objects: tuple[NewObject, ...] = ()
    data_time_ms: int = 0
    released: tuple[int, ...] = ()


class CommitCompaction(Command[None], frozen=True):
    """→ None. Replaces ``compacted`` by the new objects atomically; no stream's start, end, epoch or owner changes.

    Refused unless, according to the image, the new objects hold every live offset of the compacted ones exactly once
    and no other offset. A command without new objects is accepted when the compacted objects hold nothing live. New
    ranges of streams that were deleted or trimmed since are dead on arrival as in CommitUpload; the command is
    idempotent in the same way.
    """

    job_id: int
    compacted: tuple[int, ...]
    stream_set_object: NewObject | None = None
    stream_objects: tuple[NewObject, ...] = ()


class CommitKeyCompaction(Command[None], frozen=True):
    """→ None. Replaces ``compacted`` (contiguous stream objects of one stream) by new stream objects of the same
    offsets with fewer records, and sets the stream's cleaned offset, atomically. Both object lists are empty when key
    compaction found nothing to remove.

    Checked like CommitCompaction; besides, ``topic_id`` must still have these ``configs``, and the commit must happen
    at ``latest_ms`` or before, since the delete horizons of tombstones were computed from that time. ``released``:
    prepared ids that were not needed; they are destroyed.
    """

    job_id: int
    stream_id: int
    topic_id: str
    configs: dict[str, str]
    compacted: tuple[int, ...]
    stream_objects: tuple[NewObject, ...]
    cleaned_offset: int
    latest_ms: int
    released: tuple[int, ...] = ()


class ExpireObjects(Command[tuple[int, ...]], frozen=True):
    """→ tuple of the ids destroyed. PREPARED objects past their deadline (at most ``count_max``) become DESTROYED.
    ``object_ids`` are candidates: with them, no other object is looked at. ``lookup.expired_objects`` selects them."""

    count_max: int
    object_ids: tuple[int, ...] | None = None


class ForgetObjects(Command[None], frozen=True):
    """→ None. Removes from the metadata objects whose bytes were deleted from the bucket. Refused as a whole unless
    every one was DESTROYED at least ``grace_period_ms`` ago and before every scan pin; ids that the metadata does not
    know are skipped.
    ``lookup.deletable_objects`` selects the objects."""

    object_ids: tuple[int, ...]
    grace_period_ms: int = GRACE_PERIOD_MS


SHARED_PIN = ""


class PinScan(Command[int], frozen=True):
    """→ until when the pin exists at least (int, ms since 1970). Objects that the metadata names after this command are
    not deleted before the pin is ended, so a scan pins, refreshes the image, and plans from that image.

    ``token`` is a random token of the scan. Repeating the command renews the lease, which never becomes shorter. A
    renewal, with ``renews``, is refused with PinOutdated when the pin was ended meanwhile; without it a new pin would
    be put, which holds nothing that was destroyed before.

    With SHARED_PIN as token the pin of the minute in which the lease ends is used, and put only if there is none: such
    scans do not renew. ``holder`` tells operators which program scans; a pin keeps the holder of the scan that put it.
    """

    token: str
    lease_ms: int
    holder: str = ""
    renews: bool = False


class UnpinScan(Command[bool], frozen=True):
    """→ whether the command ended the pin (bool). Idempotent. With ``overdue_only`` a pin is left whose lease was over
    less than SCAN_PIN_OVERDUE_MS ago: it may have been renewed since the caller looked."""

    token: str
    overdue_only: bool = False


class PutKey(Command[bytes], frozen=True):
    """→ the value of the key after the command (bytes). Without ``overwrite`` an existing value is kept."""

    key: str
    value: bytes
    overwrite: bool = False


class RemoveKey(Command[None], frozen=True):
    """→ None. Removes the key if it exists. Idempotent."""

    key: str


class StartJob(Command[int], frozen=True):
    """→ job id (int). Refused while a job of the kind is RUNNING and its lease has not expired. A job whose lease has
    expired is taken over: it becomes FAILED, and its later commits are refused."""

    kind: str
    driver: str
    lease_ms: int
    description: str = ""


class RenewJob(Command[None], frozen=True):
    """→ None. The lease of the running job lasts at least ``lease_ms`` from now."""

    job_id: int
    lease_ms: int


class ShortenLease(Command[None], frozen=True):
    """→ None. If the lease of a running job ends more than LEASES_AHEAD_MAX times ``lease_ms`` from now, it is
    shortened to that time. A driver that waits for the job executes this, because the job's driver may have died with
    its clock ahead."""

    job_id: int
    lease_ms: int


class FinishJob(Command[None], frozen=True):
    """→ None. The running job becomes SUCCEEDED or FAILED. Idempotent."""

    job_id: int
    succeeded: bool
    report: str = ""


class CancelJob(Command[None], frozen=True):
    """→ None. The job becomes FAILED with ``report``, whichever driver runs it; its later commits are refused."""

    job_id: int
    report: str


class CreateTopic(Command[TopicMetadata], frozen=True):
    """→ TopicMetadata. Creates two streams for each partition, with tags ``topic``, ``partition`` and ``kind``
    (``data`` or ``meta``).
    ``topic_id`` is a random token of 32 hex digits: while the topic exists, repeating the command with the same id
    changes nothing and returns the topic. Another id for an existing name is refused with TopicAlreadyExists.
    ``leaders`` has the leader of each partition; empty: live nodes that are not being drained are chosen, those with
    the fewest partitions first (``decisions.placement``). ``partitions_max``: the most partitions that the store may
    have afterwards; 0: any number. Refused with NoLiveNode, TargetUnfit, StoreFull."""

    node_id: int
    node_epoch: int
    name: str
    topic_id: str
    partition_count: int
    replication_factor: int = 1
    configs: dict[str, str] = {}
    is_internal: bool = False
    leaders: tuple[int, ...] = ()
    partitions_max: int = 0


class AddPartitions(Command[TopicMetadata], frozen=True):
    """→ TopicMetadata. ``partition_count`` is the new total and must be larger than the current one. A caller that
    repeats the command after an unknown outcome is therefore refused when the first attempt succeeded, and finds the
    new partitions in the image. ``leaders`` of the new partitions, and ``partitions_max``: as in CreateTopic."""

    node_id: int
    node_epoch: int
    topic_id: str
    partition_count: int
    leaders: tuple[int, ...] = ()
    partitions_max: int = 0


class MovePartitions(Command[None], frozen=True):
    """→ None. ``targets``: topic id, partition number and the node that shall lead the partition. Its leader gives the
    partition up when it can (GiveUpPartitions); a partition without a leader is placed at once. The present leader, or
    NO_NODE, as the target cancels a move. Refused with TargetUnfit, StreamNotClosed, TooManyPartitions. Idempotent."""

    targets: tuple[tuple[str, int, int], ...]


class PartitionEnds(msgspec.Struct, frozen=True):
    """The partition that its leader gives up: the epoch of its data stream, and the ends of both streams, up to which
    everything is committed."""

    topic_id: str
    index: int
    leader_epoch: int
    data_end_offset: int
    meta_end_offset: int


class GiveUpPartitions(Command[tuple[GivenUpPartition, ...]], frozen=True):
    """→ the partitions with the leaders that they have now. Closes both streams of each partition and makes its target
    the leader, for all partitions or for none.

    A partition that the node no longer has open in this ``leader_epoch`` was given up before, and is answered with its
    present leader; partitions of deleted topics are skipped. So the command is repeated until it is done or refused.
    Refused with MoveCancelled when a partition has no target, TargetUnfit when the target is fenced, OffsetNotMatched
    when an end differs from the committed one, TooManyPartitions.
    """

    node_id: int
    node_epoch: int
    partitions: tuple[PartitionEnds, ...]


class PlacePartitions(Command[None], frozen=True):
    """→ None. Chooses a leader among the live nodes for each of ``partitions`` (topic id and number) whose leader is
    gone (fenced, being failed over, unregistered) or that never had one. Other partitions are skipped. Refused with
    StreamNotClosed when a stream of a partition is open, as the log of the node that has it open may hold the only copy
    of its records."""

    node_id: int
    node_epoch: int
    partitions: tuple[tuple[str, int], ...]


class AlterTopicConfigs(Command[TopicMetadata], frozen=True):
    """→ TopicMetadata. Removes the keys in ``remove``, then sets those in ``put``; with ``replace`` every existing key
    is removed first. Idempotent. Keys and values are not validated here. ``expected``: the configuration that the
    caller's change is based on; refused with TopicConfiguredOtherwise when the topic has another one and the command
    would change it."""

    topic_id: str
    put: dict[str, str] = {}
    remove: tuple[str, ...] = ()
    replace: bool = False
    expected: dict[str, str] | None = None


class DeleteTopic(Command[None], frozen=True):
    """→ None. Deletes the topic and all its streams atomically, open or not. Records that a node uploads
    for them afterwards are dead on arrival. Refused with TopicNotExist when the topic was deleted before."""

    node_id: int
    node_epoch: int
    topic_id: str


class TakeNumbers(Command[int], frozen=True):
    """→ the first of ``count`` consecutive numbers (int) of the named sequence. A sequence begins at 0, and each of its
    numbers is assigned at most once, also when the caller never uses it."""

    sequence: str
    count: int
