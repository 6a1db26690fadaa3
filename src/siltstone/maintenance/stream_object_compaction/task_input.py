"""The task input and the result of a stream object compaction: some parts of one new object."""

import msgspec

from siltstone.maintenance.stream_object_compaction.merge import CopiedPart, ReadPart
from siltstone.maintenance.tasks.task import TaskCodec, TaskFailure
from siltstone.object_store.port import MultipartUpload, UploadedPart


class CopyInput(msgspec.Struct, frozen=True, kw_only=True):
    """Parts of the object at ``key``: into ``upload``, or, when there is none, the one part is the whole object and is
    put. All lies in one bucket. ``blocks`` are index entries (``columns.ENTRY``) with the numbers of their sources:
    those of the read parts, which count in them, and not in the whole object.

    ``number`` tells which object of the wave it is.
    """

    number: int
    bucket_url: str
    key: str
    upload: MultipartUpload | None
    source_ids: tuple[int, ...]
    blocks: bytes
    copied: tuple[CopiedPart, ...]
    read: tuple[ReadPart, ...]
    read_request_bytes_max: int


class CopyResult(msgspec.Struct, frozen=True, kw_only=True):
    """``failure`` says why the parts could not be made; the other fields then say nothing. ``bytes_read`` and
    ``bytes_written`` passed through the task; ``bytes_copied`` were copied inside the store."""

    number: int
    failure: TaskFailure | None = None
    parts: tuple[UploadedPart, ...] = ()
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_copied: int = 0
    peak_memory_bytes: int = 0


CODEC = TaskCodec(CopyInput, CopyResult)
