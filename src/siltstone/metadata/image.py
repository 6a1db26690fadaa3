"""The image: the metadata at one version of the log; and the draft from which the next image is made.

An image is immutable, and any thread may read it. It equals the log's records applied in order (``applying``), from the
first record or from a snapshot. ``prepared`` and ``destroyed`` index the objects in those two states, so that expired
and deletable objects are found without a scan of all objects; ``topic_ids`` is the index of topics by name, and
``leader_counts`` the number of partitions that each node leads.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import (
    JobMetadata,
    NodeMetadata,
    ObjectMetadata,
    ScanPin,
    StoreLevel,
    StreamMetadata,
    TopicMetadata,
)
from siltstone.metadata.log_entry import NO_APPEND_ID, LogPosition
from siltstone.metadata.users import ScramUser
from siltstone.model.acls import AclBinding, Authorization
from siltstone.model.quotas import ClientQuota


class ImageView(Protocol):
    """What a decision reads: an image, or a draft that contains the earlier decisions of the same append."""

    @property
    def next_stream_id(self) -> int: ...
    @property
    def next_object_id(self) -> int: ...
    @property
    def next_job_id(self) -> int: ...
    @property
    def streams(self) -> Mapping[int, StreamMetadata]: ...
    @property
    def objects(self) -> Mapping[int, ObjectMetadata]: ...
    @property
    def prepared(self) -> Mapping[int, int]:
        """Object id → deadline in ms, for each PREPARED object."""
        ...

    @property
    def destroyed(self) -> Mapping[int, int]:
        """Object id → time of destruction in ms, for each DESTROYED object."""
        ...

    @property
    def nodes(self) -> Mapping[int, NodeMetadata]: ...
    @property
    def keys(self) -> Mapping[str, bytes]: ...
    @property
    def jobs(self) -> Mapping[int, JobMetadata]: ...
    @property
    def topics(self) -> Mapping[str, TopicMetadata]:
        """Topic id → topic."""
        ...

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """Topic name → topic id."""
        ...

    @property
    def leader_counts(self) -> Mapping[int, int]:
        """Node id → number of partitions that it leads, for each node that leads any."""
        ...

    @property
    def sequences(self) -> Mapping[str, int]:
        """Sequence name → the next number that will be given out."""
        ...

    @property
    def pins(self) -> Mapping[str, ScanPin]:
        """Token → scan pin."""
        ...

    @property
    def users(self) -> Mapping[str, ScramUser]:
        """Name → user that logs in by a password."""
        ...

    @property
    def ended_sessions(self) -> Mapping[str, int]:
        """Principal → version of the log at which its sessions were ended last."""
        ...

    @property
    def acls(self) -> Mapping[str, AclBinding]:
        """Key of the binding → binding."""
        ...

    @property
    def authorization(self) -> Authorization: ...

    @property
    def quotas(self) -> Mapping[str, ClientQuota]:
        """Key of the entity → its limits."""
        ...

    @property
    def level(self) -> StoreLevel: ...


class MetadataImage(msgspec.Struct, frozen=True):
    """``version`` is the number of log entries applied, ``append_id`` that of the last of them. Ids below
    ``next_stream_id``, ``next_object_id`` and ``next_job_id`` were given out and are never given out again."""

    version: int = 0
    next_stream_id: int = 0
    next_object_id: int = 0
    next_job_id: int = 0
    streams: ShardedMap[int, StreamMetadata] = ShardedMap()
    objects: ShardedMap[int, ObjectMetadata] = ShardedMap()
    prepared: ShardedMap[int, int] = ShardedMap()
    destroyed: ShardedMap[int, int] = ShardedMap()
    nodes: ShardedMap[int, NodeMetadata] = ShardedMap()
    keys: ShardedMap[str, bytes] = ShardedMap()
    jobs: ShardedMap[int, JobMetadata] = ShardedMap()
    topics: ShardedMap[str, TopicMetadata] = ShardedMap()
    topic_ids: ShardedMap[str, str] = ShardedMap()
    sequences: ShardedMap[str, int] = ShardedMap()
    leader_counts: ShardedMap[int, int] = ShardedMap()
    pins: ShardedMap[str, ScanPin] = ShardedMap()
    users: ShardedMap[str, ScramUser] = ShardedMap()
    ended_sessions: ShardedMap[str, int] = ShardedMap()
    acls: ShardedMap[str, AclBinding] = ShardedMap()
    authorization: Authorization = Authorization()
    quotas: ShardedMap[str, ClientQuota] = ShardedMap()
    level: StoreLevel = StoreLevel()
    append_id: str = NO_APPEND_ID

    @property
    def position(self) -> LogPosition:
        return LogPosition(self.version, self.append_id)


class ImageDraft:
    """A mutable copy of an image, from which the next image is made. Its cost grows with what is changed, not with the
    size of the image.

    ``version`` is that of the log entry whose records are applied: the one after the image, until the caller moves on
    to the next entry."""

    def __init__(self, image: MetadataImage) -> None:
        self.version = image.version + 1
        self.next_stream_id = image.next_stream_id
        self.next_object_id = image.next_object_id
        self.next_job_id = image.next_job_id
        self.streams = image.streams.draft()
        self.objects = image.objects.draft()
        self.prepared = image.prepared.draft()
        self.destroyed = image.destroyed.draft()
        self.nodes = image.nodes.draft()
        self.keys = image.keys.draft()
        self.jobs = image.jobs.draft()
        self.topics = image.topics.draft()
        self.topic_ids = image.topic_ids.draft()
        self.sequences = image.sequences.draft()
        self.leader_counts = image.leader_counts.draft()
        self.pins = image.pins.draft()
        self.users = image.users.draft()
        self.ended_sessions = image.ended_sessions.draft()
        self.acls = image.acls.draft()
        self.authorization = image.authorization
        self.quotas = image.quotas.draft()
        self.level = image.level

    def frozen(self, version: int, append_id: str = NO_APPEND_ID) -> MetadataImage:
        return MetadataImage(
            version=version,
            append_id=append_id,
            next_stream_id=self.next_stream_id,
            next_object_id=self.next_object_id,
            next_job_id=self.next_job_id,
            streams=self.streams.frozen(),
            objects=self.objects.frozen(),
            prepared=self.prepared.frozen(),
            destroyed=self.destroyed.frozen(),
            nodes=self.nodes.frozen(),
            keys=self.keys.frozen(),
            jobs=self.jobs.frozen(),
            topics=self.topics.frozen(),
            topic_ids=self.topic_ids.frozen(),
            sequences=self.sequences.frozen(),
            leader_counts=self.leader_counts.frozen(),
            pins=self.pins.frozen(),
            users=self.users.frozen(),
            ended_sessions=self.ended_sessions.frozen(),
            acls=self.acls.frozen(),
            authorization=self.authorization,
            quotas=self.quotas.frozen(),
            level=self.level,
        )
