"""What can be asked of the metadata. Each command is a value; ``decisions`` answers it.

``node_epoch`` and ``stream_epoch`` fence: a lower one than registered is refused, always. Maintenance is no
node: its fence is the job it runs under (``job_id``), which must be running when it commits.
"""

from typing import TypeAlias

import msgspec

from siltstone.model.objects import DEFAULT_BUCKET_ID, ObjectRange


class RegisterNode(msgspec.Struct, frozen=True):
    """Take (over) a node id: raises its epoch and so fences whoever had it. → NodeRegistration

    ``incarnation`` is a random token of this start: repeating the command with it changes nothing, and two
    starts at once cannot end with the same epoch. ``failover`` replays a dead node's WAL on its behalf.
    """

    node_id: int
    incarnation: str
    wal_location: str
    failover: bool = False


class CreateStream(msgspec.Struct, frozen=True):
    """→ stream id (int). The stream starts closed, at epoch -1, empty."""

    node_id: int
    node_epoch: int
    tags: dict[str, str] = {}


class OpenStream(msgspec.Struct, frozen=True):
    """→ StreamMetadata. ``stream_epoch`` must be the current one (reopen by its owner) or higher (take over)."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int


class CloseStream(msgspec.Struct, frozen=True):
    """→ None. Idempotent."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int


class TrimStream(msgspec.Struct, frozen=True):
    """→ None. Moves the start offset forward, past the committed end if need be. Touches no object."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int
    start_offset: int


class DeleteStream(msgspec.Struct, frozen=True):
    """→ None. The stream must be closed. Idempotent; its data goes with compaction and garbage collection."""

    node_id: int
    node_epoch: int
    stream_id: int
    stream_epoch: int


class PrepareObjects(msgspec.Struct, frozen=True):
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


class CommitUpload(msgspec.Struct, frozen=True):
    """→ None. The objects of one sealed cache block: at most one SSO and any number of SOs, atomically.

    Idempotent: an id that is committed already makes the whole command a success with no records, and that
    is looked at before continuity (#1055, #1056).
    """

    node_id: int
    node_epoch: int
    stream_set_object: NewObject | None
    stream_objects: tuple[NewObject, ...] = ()
    data_time_ms: int = 0


class CommitCompaction(msgspec.Struct, frozen=True):
    """→ None. Replaces ``compacted`` by the new objects, atomically; moves no stream's start, end, epoch, owner.

    Refused unless, judged from the image, every live offset the compacted objects hold is covered by the new
    ones exactly once. Idempotent like CommitUpload.
    """

    job_id: int
    compacted: tuple[int, ...]
    stream_set_object: NewObject | None = None
    stream_objects: tuple[NewObject, ...] = ()


class ExpireObjects(msgspec.Struct, frozen=True):
    """→ tuple of ids destroyed. Prepared objects past their deadline (at most ``count_max``) become DESTROYED."""

    count_max: int


class ForgetObjects(msgspec.Struct, frozen=True):
    """→ None. The bytes are deleted from the bucket; only DESTROYED ids may be named; unknown ids are done."""

    object_ids: tuple[int, ...]


class PutKey(msgspec.Struct, frozen=True):
    """→ the value that stands afterwards (bytes). Without ``overwrite`` an existing value is kept and returned."""

    key: str
    value: bytes
    overwrite: bool = False


class RemoveKey(msgspec.Struct, frozen=True):
    """→ None. Idempotent."""

    key: str


class StartJob(msgspec.Struct, frozen=True):
    """→ job id (int). Refused while a job of the kind runs under a lease that has not passed; one whose lease
    has passed is taken over: it becomes FAILED, and its late commit is refused."""

    kind: str
    driver: str
    lease_ms: int
    description: str = ""


class RenewJob(msgspec.Struct, frozen=True):
    """→ None."""

    job_id: int
    lease_ms: int


class FinishJob(msgspec.Struct, frozen=True):
    """→ None. Idempotent."""

    job_id: int
    succeeded: bool
    report: str = ""


Command: TypeAlias = (
    RegisterNode
    | CreateStream
    | OpenStream
    | CloseStream
    | TrimStream
    | DeleteStream
    | PrepareObjects
    | CommitUpload
    | CommitCompaction
    | ExpireObjects
    | ForgetObjects
    | PutKey
    | RemoveKey
    | StartJob
    | RenewJob
    | FinishJob
)
