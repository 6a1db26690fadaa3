"""The commands: every change that a node or a driver of maintenance may ask of the metadata. Each is a value.

A docstring begins with → and the result. ``node_epoch`` and ``stream_epoch`` fence: a command with a lower epoch than
the registered one is refused. Maintenance has no node; it is fenced by its job (``job_id``), which must be running when
it commits. Next: ``refusals``, and ``decisions``, which decides each command.
"""

from typing import Generic, TypeVar

import msgspec

from siltstone.metadata.entities import NodeRegistration, StreamMetadata, TopicMetadata
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
    log on that node's behalf.

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


class CreateStream(Command[int], frozen=True):
    """→ stream id (int). The new stream is closed and empty; its epoch is -1."""

    node_id: int
    node_epoch: int
    tags: dict[str, str] = {}


class OpenStream(Command[StreamMetadata], frozen=True):
    """→ StreamMetadata. ``stream_epoch`` must be the current epoch (the owner reopens the stream) or a higher one
    (another node takes the closed stream over)."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int


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
    """→ first object id (int); the ids are contiguous. Exactly one of ``node_id`` (with ``node_epoch``) and ``job_id``
    is given."""

    count: int
    time_limit_ms: int
    bucket_id: int = DEFAULT_BUCKET_ID
    node_id: int | None = None
    node_epoch: int | None = None
    job_id: int | None = None


class NewObject(msgspec.Struct, frozen=True):
    """An uploaded object to commit. Each of ``ranges`` has this object's id; they are sorted by stream id."""

    object_id: int
    size_bytes: int
    ranges: tuple[ObjectRange, ...]


class CommitUpload(Command[None], frozen=True):
    """→ None. Commits the objects of one sealed cache block atomically: at most one stream set object and any number
    of stream objects.

    Idempotent: when some of the ids were committed and none is PREPARED, this commit was done before, and the command
    succeeds with no records. That is checked before anything else, fences included: a refusal permits the caller to
    delete what it uploaded, so a commit that was done must never be refused (AutoMQ #1055, #1056).

    Ranges of deleted streams and ranges wholly below a start offset are dead on arrival: the object is committed
    without them, and destroyed by the same append when no range is left. ``data_time_ms`` 0 means the time of the
    decision.
    """

    node_id: int
    node_epoch: int
    stream_set_object: NewObject | None
    stream_objects: tuple[NewObject, ...] = ()
    data_time_ms: int = 0


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
    every one was DESTROYED at least ``grace_period_ms`` ago; ids that the metadata does not know are skipped.
    ``lookup.deletable_objects`` selects the objects."""

    object_ids: tuple[int, ...]
    grace_period_ms: int = GRACE_PERIOD_MS


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
    """→ None. Of a running job whose lease ends more than LEASES_AHEAD_MAX times ``lease_ms`` from now, it ends then. A
    driver that waits for the job executes this, because the job's driver may have died with its clock ahead."""

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
    """

    node_id: int
    node_epoch: int
    name: str
    topic_id: str
    partition_count: int
    replication_factor: int = 1
    configs: dict[str, str] = {}
    is_internal: bool = False


class AddPartitions(Command[TopicMetadata], frozen=True):
    """→ TopicMetadata. ``partition_count`` is the new total and must be larger than the current one. A caller that
    repeats the command after an unknown outcome is therefore refused when the first attempt succeeded, and finds the
    new partitions in the image."""

    node_id: int
    node_epoch: int
    topic_id: str
    partition_count: int


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
    """→ None. Deletes the topic and all its streams atomically; each must be closed, or open at this node. What the
    node uploads for them afterwards is dead on arrival. Refused with TopicNotExist when the topic was deleted
    before."""

    node_id: int
    node_epoch: int
    topic_id: str


class TakeNumbers(Command[int], frozen=True):
    """→ the first of ``count`` consecutive numbers (int) of the named sequence. A sequence begins at 0, and each of its
    numbers is given out at most once, also when the caller never uses it."""

    sequence: str
    count: int
