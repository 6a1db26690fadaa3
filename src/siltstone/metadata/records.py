"""Defines the records of the metadata log: the facts that commands have established. ``applying`` folds them into the
image.

A record contains everything needed to apply it: applying reads no clock, checks no rule and looks up no default.
Records are encoded as msgpack arrays ``[tag, field, …]``. Tags and the order of fields never change; a new field is
added at the end and has a default. Next: ``log_entry`` (their bytes), ``image``.
"""

from typing import TypeAlias

import msgspec

from siltstone.metadata.entities import JobState, NodeListener, PartitionMetadata
from siltstone.model.acls import AclBinding, AuthorizationMode
from siltstone.model.objects import ObjectKind, ObjectRange
from siltstone.model.quotas import QuotaEntity, QuotaKey
from siltstone.model.segments import ClosedSegment


class NodeRegistered(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=1):
    node_id: int
    node_epoch: int
    incarnation: str
    failover: bool
    wal_location: str
    listeners: tuple[NodeListener, ...] = ()
    rack: str | None = None


class NodeFenced(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=2):
    """The node was silent for a session: its commands are refused until it resumes or registers again."""

    node_id: int
    node_epoch: int


class NodeResumed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=3):
    """The fenced node continues in the same life."""

    node_id: int
    node_epoch: int


class NodeDraining(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=4):
    """The node gets no more partitions; with ``is_draining`` false it gets them again."""

    node_id: int
    is_draining: bool = True


class NodeUnregistered(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=5):
    node_id: int


class FailoverClaimed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=6):
    """Node ``by``, in its life ``by_epoch``, replays the log of ``node_id``. NO_NODE: the claim is withdrawn."""

    node_id: int
    by: int
    by_epoch: int


class StreamCreated(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=10):
    stream_id: int
    tags: dict[str, str]


class StreamOpened(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=11):
    stream_id: int
    epoch: int
    node_id: int


class StreamClosed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=12):
    stream_id: int


class StreamTrimmed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=13):
    stream_id: int
    start_offset: int


class StreamsAdvanced(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=14):
    """``ends``: pairs of stream id and new end offset."""

    ends: tuple[tuple[int, int], ...]


class StreamDeleted(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=15):
    """The stream is deleted: from this record on compaction may drop its data."""

    stream_id: int


class StreamForgotten(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=16):
    """The stream, which was deleted before, leaves the image: no object holds a range of it any more."""

    stream_id: int


class SegmentsRolled(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=17):
    """``rolled``: pairs of stream id and the segment that was closed, at most one segment for each stream."""

    rolled: tuple[tuple[int, ClosedSegment], ...]


class StreamCleaned(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=18):
    """Key compaction has removed the records that newer ones below ``cleaned_offset`` replace."""

    stream_id: int
    cleaned_offset: int


class StreamsLoaded(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=19):
    """A sink has appended to CLOSED streams, which stay CLOSED: no other process ever sees one of them open at a sink.
    ``loads``: stream id, the epoch of the appended batches, and the new end offset. The owner of the streams is
    SINK_NODE from now on."""

    loads: tuple[tuple[int, int, int], ...]


class ObjectsPrepared(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=20):
    first_id: int
    count: int
    bucket_id: int
    deadline_ms: int


class ObjectCommitted(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=21):
    """``ranges`` are the ranges that were live when the object was committed; its bytes may hold more."""

    object_id: int
    kind: ObjectKind
    size_bytes: int
    committed_ms: int
    data_time_ms: int
    ranges: tuple[ObjectRange, ...]


class ObjectsDestroyed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=22):
    """The ranges of the objects are removed from the streams at once; their bytes stay for the grace period."""

    object_ids: tuple[int, ...]
    destroyed_ms: int


class ObjectsForgotten(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=23):
    """The objects leave the image: their bytes were deleted from the bucket."""

    object_ids: tuple[int, ...]


class CopiesPrepared(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=24):
    """From now on each object may be in this bucket, too: the copy does not count, but is deleted with the object."""

    object_ids: tuple[int, ...]
    bucket_id: int


class CopiesAdded(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=25):
    """The copies of these objects in the bucket are complete and readable."""

    object_ids: tuple[int, ...]
    bucket_id: int


class CopiesUncertain(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=26):
    """The copies in the bucket no longer count: perhaps they were never put. Each object is in another bucket, too."""

    object_ids: tuple[int, ...]
    bucket_id: int


class BucketLost(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=27):
    """No object is in the bucket any more. Objects that were in no other bucket were destroyed or forgotten before this
    record."""

    bucket_id: int


class RangesLost(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=28):
    """A person has accepted that the records of these offsets are lost with a bucket. ``ranges``: stream id, start
    offset and end offset of each. The records after this one in the entry put objects without records in their place.
    """

    bucket_id: int
    ranges: tuple[tuple[int, int, int], ...]


class KeySet(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=30):
    key: str
    value: bytes


class KeyRemoved(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=31):
    key: str


class JobStarted(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=40):
    job_id: int
    kind: str
    driver: str
    description: str
    started_ms: int
    lease_until_ms: int


class JobRenewed(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=41):
    job_id: int
    lease_until_ms: int


class JobFinished(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=42):
    job_id: int
    state: JobState
    finished_ms: int
    report: str


class JobForgotten(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=43):
    job_id: int


class TopicCreated(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=50):
    """A topic was created. The records before this one in the entry created its streams."""

    topic_id: str
    name: str
    partitions: tuple[PartitionMetadata, ...]
    configs: dict[str, str]
    replication_factor: int
    created_ms: int
    is_internal: bool


class PartitionsAdded(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=51):
    """Partitions were added after the topic's last. The records before this one in the entry created their streams."""

    topic_id: str
    partitions: tuple[PartitionMetadata, ...]


class TopicConfigured(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=52):
    """``configs`` replaces the topic's whole configuration."""

    topic_id: str
    configs: dict[str, str]


class TopicDeleted(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=53):
    """The topic is deleted. The records after this one in the entry delete its streams."""

    topic_id: str


class PartitionsPlaced(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=54):
    """``leaders``: pairs of partition number and new leader. The partitions are not being moved any more."""

    topic_id: str
    leaders: tuple[tuple[int, int], ...]


class PartitionsMoving(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=55):
    """``targets``: pairs of partition number and the node to which the leader hands the partition over; NO_NODE cancels
    the move."""

    topic_id: str
    targets: tuple[tuple[int, int], ...]


class NumbersTaken(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=60):
    """All numbers of the sequence below ``next_number`` have been assigned."""

    sequence: str
    next_number: int


class ScanPinned(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=75):
    """A pin was put, or its lease was moved. A pin keeps the version of the entry that put it, and its holder."""

    token: str
    until_ms: int
    holder: str = ""


class ScanUnpinned(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=76):
    token: str


class ScramCredentialSet(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=80):
    """What SCRAM keeps of a user's password. ``mechanism`` is Kafka's number."""

    user: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    rounds: int

    def __repr__(self) -> str:
        """Shows no key and no salt."""
        return f"ScramCredentialSet({self.user!r}, {self.mechanism}, rounds={self.rounds})"


class ScramCredentialRemoved(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=81):
    """A user whose last credential is removed is gone, and its sessions end."""

    user: str
    mechanism: int


class SessionsEnded(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=87):
    """The sessions of a principal, such as ``User:ada``, that began before this record end on every node."""

    principal: str


class AclsCreated(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=82):
    bindings: tuple[AclBinding, ...]


class AclsDeleted(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=83):
    bindings: tuple[AclBinding, ...]


class QuotaSet(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=84):
    """One limit of an entity from now on."""

    entity: QuotaEntity
    key: QuotaKey
    value: float


class QuotaRemoved(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=85):
    """An entity whose last limit is removed is gone."""

    entity: QuotaEntity
    key: QuotaKey


class AuthorizationSet(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=86):
    """The mode and all super users of the store from now on."""

    mode: AuthorizationMode
    super_users: tuple[str, ...]


class LevelRaised(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=91):
    """From this record on the log may have records of the level. Every program refuses a level that it does not know,
    so this record never changes but for fields at its end."""

    level: int
    program: str
    raised_ms: int


class LogMoved(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=90):
    """The last record of a log: the store's metadata was copied to another one. ``url`` has no password."""

    url: str


Record: TypeAlias = (
    NodeRegistered
    | NodeFenced
    | NodeResumed
    | NodeDraining
    | NodeUnregistered
    | FailoverClaimed
    | StreamCreated
    | StreamOpened
    | StreamClosed
    | StreamTrimmed
    | StreamsAdvanced
    | StreamDeleted
    | StreamForgotten
    | SegmentsRolled
    | StreamCleaned
    | StreamsLoaded
    | ObjectsPrepared
    | ObjectCommitted
    | ObjectsDestroyed
    | ObjectsForgotten
    | CopiesPrepared
    | CopiesAdded
    | CopiesUncertain
    | BucketLost
    | RangesLost
    | KeySet
    | KeyRemoved
    | JobStarted
    | JobRenewed
    | JobFinished
    | JobForgotten
    | TopicCreated
    | PartitionsAdded
    | TopicConfigured
    | TopicDeleted
    | PartitionsPlaced
    | PartitionsMoving
    | NumbersTaken
    | ScanPinned
    | ScanUnpinned
    | ScramCredentialSet
    | ScramCredentialRemoved
    | SessionsEnded
    | AclsCreated
    | AclsDeleted
    | QuotaSet
    | QuotaRemoved
    | AuthorizationSet
    | LogMoved
    | LevelRaised
)
