"""What can be asked of the metadata. Each command is a value; ``decisions`` answers it.

``node_epoch`` and ``stream_epoch`` fence: a lower one than registered is refused, always. Maintenance is no
node: its fence is the job it runs under (``job_id``), which must be running when it commits.
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
    """Take (over) a node id: raises its epoch and so fences whoever had it. → NodeRegistration

    ``incarnation`` is a random token of this start: repeating the command with it changes nothing, and two
    starts at once cannot end with the same epoch. ``failover`` replays a dead node's WAL on its behalf.

    ``log_epoch`` is the node epoch that the log in hand was last used under, 0 for one never used: with streams still
    open, one below NodeMetadata.log_epoch is refused, unless that is the ``lost_log_epoch`` that somebody has given
    up. None: there is no log to look at.
    """

    node_id: int
    incarnation: str
    wal_location: str
    failover: bool = False
    log_epoch: int | None = None
    lost_log_epoch: int = 0


class CreateStream(Command[int], frozen=True):
    """→ stream id (int). The stream starts closed, at epoch -1, empty."""

    node_id: int
    node_epoch: int
    tags: dict[str, str] = {}


class OpenStream(Command[StreamMetadata], frozen=True):
    """→ StreamMetadata. ``stream_epoch`` must be the current one (reopen by its owner) or higher (take over)."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int


class CloseStream(Command[None], frozen=True):
    """→ None. Idempotent."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int


class TrimStream(Command[None], frozen=True):
    """→ None. Moves the start offset forward, past the committed end if need be. Touches no object."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int
    start_offset: int


class RollSegments(Command[None], frozen=True):
    """→ None. Closes segments: each of ``rolled`` is a stream id and its segment. A node names streams that it owns,
    and offsets that may not be committed yet; maintenance only committed ones. One that begins before the end of the
    last closed one begins there; what is closed already, and streams that are gone, are passed over.

    Exactly one of node_id and job_id says who asks.
    """

    rolled: tuple[tuple[int, ClosedSegment], ...]
    node_id: int | None = None
    node_epoch: int | None = None
    job_id: int | None = None


class TopicTrims(msgspec.Struct, frozen=True):
    """``trims``: pairs of stream id and new start offset. ``configs`` is the topic's configuration they follow from."""

    topic_id: str
    configs: dict[str, str]
    trims: tuple[tuple[int, int], ...]


class TrimStreams(Command[tuple[int, ...]], frozen=True):
    """→ ids of the streams that were trimmed. Retention, under a job: moves start offsets forward, within what is
    committed, and touches no object. Streams that are gone or begin there already, and topics that are configured
    otherwise meanwhile, are passed over: one of them costs the others nothing."""

    job_id: int
    topics: tuple[TopicTrims, ...]


class DeleteStream(Command[None], frozen=True):
    """→ None. The stream must be closed, and no topic's; any node may ask. Idempotent. Its stream objects are destroyed
    at once, its blocks in stream set objects go with compaction and garbage collection."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int


class PrepareObjects(Command[int], frozen=True):
    """→ first object id (int); ids are contiguous. Exactly one of node_id and job_id says who asks."""

    count: int
    time_limit_ms: int
    bucket_id: int = DEFAULT_BUCKET_ID
    node_id: int | None = None
    node_epoch: int | None = None
    job_id: int | None = None


class NewObject(msgspec.Struct, frozen=True):
    """An object that was uploaded and is to be committed. ``ranges`` carry its own id; sorted by stream."""

    object_id: int
    size_bytes: int
    ranges: tuple[ObjectRange, ...]


class CommitUpload(Command[None], frozen=True):
    """→ None. The objects of one sealed cache block: at most one SSO and any number of SOs, atomically.

    Idempotent: ids that were committed already, and none that still waits, make the whole command a success with
    no records. That is looked at before anything else, fences included: a refusal permits the caller to delete
    what it uploaded, so a commit that was done must never be answered by one (AutoMQ #1055, #1056).

    Ranges of deleted streams and ranges wholly below a start offset are dead on arrival: the object is committed
    without them, and destroyed in the same batch when none is left. ``data_time_ms`` 0 stands for now.
    """

    node_id: int
    node_epoch: int
    stream_set_object: NewObject | None
    stream_objects: tuple[NewObject, ...] = ()
    data_time_ms: int = 0


class CommitCompaction(Command[None], frozen=True):
    """→ None. Replaces ``compacted`` by the new objects, atomically; moves no stream's start, end, epoch, owner.

    Refused unless, judged from the image, every live offset the compacted objects hold is covered by the new
    ones exactly once, and the new ones hold nothing else. No new objects at all is right when nothing in the compacted
    ones is live. New ranges of streams deleted meanwhile, and ranges trimmed meanwhile, are dead on arrival as in
    CommitUpload, and CommitCompaction is idempotent like it.
    """

    job_id: int
    compacted: tuple[int, ...]
    stream_set_object: NewObject | None = None
    stream_objects: tuple[NewObject, ...] = ()


class CommitKeyCompaction(Command[None], frozen=True):
    """→ None. Replaces ``compacted``, contiguous stream objects of one stream, by new ones of the same offsets that
    hold fewer records, and says how far it is clean; atomically. Where nothing could be removed both are empty.

    Judged like CommitCompaction, and besides: ``topic_id`` must still have these ``configs``, and ``now`` be at most
    ``latest_ms``, since tombstones get their time limits from it. ``released``: ids that were prepared and not needed.
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
    """→ tuple of ids destroyed. Prepared objects past their deadline (at most ``count_max``) become DESTROYED."""

    count_max: int


class ForgetObjects(Command[None], frozen=True):
    """→ None. The bytes are deleted from the bucket. Only ids DESTROYED at least ``grace_period_ms`` ago may be
    named, or nothing is forgotten; ids that are gone are done. ``expiry.deletable_objects`` selects them."""

    object_ids: tuple[int, ...]
    grace_period_ms: int = GRACE_PERIOD_MS


class PutKey(Command[bytes], frozen=True):
    """→ the value that stands afterwards (bytes). Without ``overwrite`` an existing value is kept and returned."""

    key: str
    value: bytes
    overwrite: bool = False


class RemoveKey(Command[None], frozen=True):
    """→ None. Idempotent."""

    key: str


class StartJob(Command[int], frozen=True):
    """→ job id (int). Refused while a job of the kind runs under a lease that has not passed; one whose lease
    has passed is taken over: it becomes FAILED, and its late commit is refused."""

    kind: str
    driver: str
    lease_ms: int
    description: str = ""


class RenewJob(Command[None], frozen=True):
    """→ None."""

    job_id: int
    lease_ms: int


class FinishJob(Command[None], frozen=True):
    """→ None. Idempotent."""

    job_id: int
    succeeded: bool
    report: str = ""


class CancelJob(Command[None], frozen=True):
    """→ None. The job is FAILED with ``report``, whoever drives it: its commits are refused from here on."""

    job_id: int
    report: str


class CreateTopic(Command[TopicMetadata], frozen=True):
    """→ TopicMetadata. Creates two streams for each partition, with tags ``topic``, ``partition`` and ``kind``
    (``data`` or ``meta``).

    ``topic_id`` is a random token of 32 hex digits: while the topic stands, repeating the command with it changes
    nothing and answers what stands. Another id for a name that stands is TopicAlreadyExists.
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
    """→ TopicMetadata. ``partition_count`` is how many there are to be in all, and more than there are: whoever asks
    again because the outcome was unknown is refused when it was done, and finds the partitions in the image."""

    node_id: int
    node_epoch: int
    topic_id: str
    partition_count: int


class AlterTopicConfigs(Command[TopicMetadata], frozen=True):
    """→ TopicMetadata. Removes, then puts; with ``replace`` everything that stands is removed first. Idempotent. What
    the keys mean, and which values they take, is not asked here. ``expected``: the configuration it follows from;
    TopicConfiguredOtherwise when another stands, and this would change it."""

    topic_id: str
    put: dict[str, str] = {}
    remove: tuple[str, ...] = ()
    replace: bool = False
    expected: dict[str, str] | None = None


class DeleteTopic(Command[None], frozen=True):
    """→ None. The topic and all its streams, at once: those closed and those the asking node has open. What the node
    uploads of them afterwards is dead on arrival. TopicNotExist when it is gone already."""

    node_id: int
    node_epoch: int
    topic_id: str


class TakeNumbers(Command[int], frozen=True):
    """→ the first of ``count`` consecutive numbers (int) that nobody got before. A sequence is named and begins at 0.
    Numbers that were taken and never used are not given out again."""

    sequence: str
    count: int
