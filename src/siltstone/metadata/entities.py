"""What the image is made of: streams, nodes, objects, jobs, topics. Frozen values, shared between images.

Snapshots carry them as they are, as arrays: new fields go to the end and have a default. None can be part of a
reference cycle, so the garbage collector leaves them alone (half a million of them would cost it seconds).
"""

from enum import IntEnum

import msgspec

from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState
from siltstone.model.segments import ClosedSegment

NO_NODE = -1
NO_EPOCH = -1


class StreamState(IntEnum):
    """CLOSED ⇄ OPENED; CLOSED → DELETED → forgotten, when no object holds a range of it any more. Streams of a topic
    are deleted with it, OPENED ones too.

    A deleted stream stays in the image until then: only that record permits its data to be dropped."""

    CLOSED = 1
    OPENED = 2
    DELETED = 3


class OwnerRange(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Offsets a node appended under one stream epoch. The last one of an open stream ends at its end."""

    node_id: int
    stream_epoch: int
    start_offset: int
    end_offset: int


class StreamMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """``ranges`` is sorted by offset and has no overlap: objects that hold [start_offset, end_offset), and
    trimmed ones before it as long as their objects exist. ``owner`` is NO_NODE before the first opening.

    ``segments`` are the closed ones, each beginning where the one before it ends; the active one follows. Below
    ``cleaned_offset`` every record is the newest of its key as far as that offset: key compaction has been there.
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
        """Where the active segment begins."""
        return self.segments[-1].end_offset if self.segments else self.start_offset


class ObjectMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """``kind`` is None until committed. Times in ms since 1970, 0 when not reached.

    ``deadline_ms`` is the time limit while PREPARED. ``data_time_ms`` is the age of the oldest data in it,
    kept over compactions. ``ranges`` is empty unless COMMITTED, and shared with the streams' lists.
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


class NodeMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """``log_epoch``: the node epoch under which it last opened a stream, and so may have acknowledged what only its
    write-ahead log holds; 0 before the first."""

    node_id: int
    node_epoch: int
    incarnation: str
    failover: bool
    wal_location: str
    log_epoch: int = 0


class JobState(IntEnum):
    """RUNNING → SUCCEEDED | FAILED. A RUNNING job whose lease has passed may be taken over."""

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
    """The streams of one partition: its record batches, and what is kept about them."""

    data_stream_id: int
    meta_stream_id: int


class TopicMetadata(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """``topic_id`` is 32 hex digits, ``partitions`` is by partition number. The streams in it exist as long as it does,
    and belong to no other topic. ``replication_factor`` is what was asked for: the store keeps it and heeds it not."""

    topic_id: str
    name: str
    partitions: tuple[PartitionMetadata, ...]
    configs: dict[str, str]
    replication_factor: int
    created_ms: int
    is_internal: bool


class NodeRegistration(msgspec.Struct, frozen=True):
    """What RegisterNode answers: the new epoch and the streams left open by the node's last life."""

    node_id: int
    node_epoch: int
    opened_streams: tuple[StreamMetadata, ...]
