"""Defines the entities of the image: streams, objects, nodes, jobs, topics. They are frozen values, shared between
images.

Snapshots encode them as arrays: a new field is added at the end and has a default. No entity can be part of a
reference cycle, so ``gc=False`` lets Python's garbage collector skip them (half a million of them would cost it
seconds). Next: ``image``, ``streams``.
"""

from enum import Enum, IntEnum

import msgspec

from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState
from siltstone.model.segments import ClosedSegment

NO_NODE = -1
SINK_NODE = 1_000_000
"""The owner of records that sinks append to closed streams. Neither it nor any higher id is ever registered, so no part
of a cluster lists it, suspects it, or waits for it."""

NO_EPOCH = -1


class StreamState(IntEnum):
    """CLOSED ⇄ OPENED; CLOSED → DELETED → forgotten. The streams of a topic are deleted with the topic, OPENED ones
    too.

    A DELETED stream is forgotten (removed from the image) when no object holds a range of it any more. It stays in the
    image until then, because compaction may drop a stream's data only if the image says that the stream is DELETED."""

    CLOSED = 1
    OPENED = 2
    DELETED = 3


class OwnerRange(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The offsets that a node appended under one stream epoch. A stream's last owner range ends at the stream's end."""

    node_id: int
    stream_epoch: int
    start_offset: int
    end_offset: int


class StreamMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """``ranges`` is sorted by offset and has no overlap: the ranges of objects that hold [start_offset, end_offset),
    and ranges below ``start_offset`` as long as their objects exist. ``owner`` is NO_NODE before the first opening, and
    SINK_NODE after a sink has appended without a broker.

    ``segments`` are the closed segments, each beginning where the one before it ends; the active one follows them.
    Key compaction has cleaned the stream up to ``cleaned_offset``: of two records with one key below it, the older was
    removed.
    """

    stream_id: int
    state: StreamState
    epoch: int
    owner: int
    start_offset: int
    end_offset: int
    owner_ranges: tuple[OwnerRange, ...]
    ranges: tuple[ObjectRange, ...]
    tags: dict[str, str]
    segments: tuple[ClosedSegment, ...] = ()
    cleaned_offset: int = 0

    @property
    def active_offset(self) -> int:
        """The first offset of the active segment."""
        return self.segments[-1].end_offset if self.segments else self.start_offset


class ObjectMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """``kind`` is None until the object is committed. Times are in ms since 1970; 0 means that it has not happened.

    ``deadline_ms``: a PREPARED object must be committed before it. ``data_time_ms``: when the oldest data in the
    object was uploaded first; compaction keeps it. ``ranges`` is empty unless the object is COMMITTED; its values are
    shared with ``StreamMetadata.ranges``. ``destroyed_version``: the version of the log entry that destroyed the
    object; 0 if it was destroyed before versions were noted.

    ``copies``: the further buckets in which a COMMITTED object is. ``uncertain``: buckets for which a copy was prepared
    that does not count, or not yet, though its put may have succeeded. Readers use ``bucket_ids``; a destroyed object
    is deleted from ``every_bucket_id`` before it is forgotten.
    """

    object_id: int
    state: ObjectState
    bucket_id: int
    kind: ObjectKind | None
    size_bytes: int
    deadline_ms: int
    committed_ms: int
    destroyed_ms: int
    data_time_ms: int
    ranges: tuple[ObjectRange, ...]
    destroyed_version: int = 0
    copies: tuple[int, ...] = ()
    uncertain: tuple[int, ...] = ()

    @property
    def bucket_ids(self) -> tuple[int, ...]:
        return (self.bucket_id, *self.copies)

    @property
    def every_bucket_id(self) -> tuple[int, ...]:
        return (self.bucket_id, *self.copies, *self.uncertain)


class ScanPin(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """While the pin exists, no object is deleted that an image of ``version`` or later names or has named. The pin
    exists until a record ends it; from ``until_ms`` on a sweep may write that record. ``holder`` describes the program
    that scans."""

    token: str
    version: int
    until_ms: int
    holder: str = ""


class NodeListener(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An address at which clients reach a node, and the name that brokers advertise."""

    name: str
    host: str
    port: int


class StoreLevel(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Which formats may be in the store (``levels``). ``program`` is the version that raised it, ``raised_ms`` when,
    and ``version`` the entry of the log that did. A store that was never raised has level 1."""

    number: int = 1
    program: str = ""
    raised_ms: int = 0
    version: int = 0


class NodeState(Enum):
    """What the metadata says of a node. A node that was failed over stays so until it is started again, or
    unregistered."""

    LIVE = "live"
    FENCED = "fenced"
    FAILING_OVER = "failing over"
    FAILED_OVER = "failed over"


class NodeLife(msgspec.Struct, frozen=True, gc=False):
    """What one process does under one node epoch."""

    node_id: int
    node_epoch: int
    incarnation: str


class NodeMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """``log_epoch``: the node epoch under which the node last opened a stream, so that its write-ahead log of that
    epoch may hold the only copy of acknowledged records; 0 before the node opens its first stream.

    ``is_fenced``: the node was silent, and may resume this life until another node claims its failover. ``failover``:
    another process registered on the node's behalf, to replay its log. ``claimed_by`` and ``claimed_by_epoch`` name
    the node that has claimed the failover, and the life in which it did; NO_NODE: there is no claim. A node without
    ``listeners`` was registered by a process that clients do not find through the metadata.
    """

    node_id: int
    node_epoch: int
    incarnation: str
    failover: bool
    wal_location: str
    log_epoch: int = 0
    listeners: tuple[NodeListener, ...] = ()
    rack: str | None = None
    is_fenced: bool = False
    is_draining: bool = False
    claimed_by: int = NO_NODE
    claimed_by_epoch: int = NO_EPOCH

    @property
    def is_live(self) -> bool:
        """Whether the node's own process serves, as far as the metadata knows."""
        return not self.is_fenced and not self.failover

    @property
    def life(self) -> NodeLife:
        return NodeLife(self.node_id, self.node_epoch, self.incarnation)

    @property
    def state(self) -> NodeState:
        if self.failover:
            return NodeState.FAILED_OVER if self.claimed_by == NO_NODE else NodeState.FAILING_OVER
        return NodeState.FENCED if self.is_fenced else NodeState.LIVE


class JobState(IntEnum):
    """RUNNING → SUCCEEDED | FAILED. A RUNNING job whose lease has expired may be taken over by another driver."""

    RUNNING = 1
    SUCCEEDED = 2
    FAILED = 3


class JobMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    job_id: int
    kind: str
    state: JobState
    driver: str
    description: str
    started_ms: int
    lease_until_ms: int
    finished_ms: int
    report: str


class PartitionMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The two streams of one partition: the data stream holds its record batches, the meta stream snapshots of what
    the broker derived from them.

    ``leader``: the only node that may open them; NO_NODE (partitions of older versions): the first node that opens
    them becomes the leader. ``target``: the node that becomes the leader when the present one has given the partition
    up; NO_NODE: the partition is not being moved.
    """

    data_stream_id: int
    meta_stream_id: int
    leader: int = NO_NODE
    target: int = NO_NODE


class TopicMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """``topic_id`` is 32 hex digits; ``partitions`` is indexed by partition number. The topic's streams exist as long
    as the topic and belong to no other. ``replication_factor`` is what the client requested; it has no effect."""

    topic_id: str
    name: str
    partitions: tuple[PartitionMetadata, ...]
    configs: dict[str, str]
    replication_factor: int
    created_ms: int
    is_internal: bool


class NodeRegistration(msgspec.Struct, frozen=True):
    """The result of RegisterNode: the new epoch, and the streams that the node left open under earlier epochs."""

    node_id: int
    node_epoch: int
    opened_streams: tuple[StreamMetadata, ...]


class OpenedPartition(msgspec.Struct, frozen=True):
    """The result of OpenPartition."""

    data: StreamMetadata
    meta: StreamMetadata


class GivenUpPartition(msgspec.Struct, frozen=True):
    """The answer of GiveUpPartitions for one partition. ``leader_epoch`` is the epoch of its data stream."""

    topic_id: str
    index: int
    leader: int
    leader_epoch: int
