"""Defines the task input and the result of a stream object compaction: some parts of one new object."""

import msgspec

from siltstone.maintenance.stream_object_compaction.merge import CopiedPart, ReadPart
from siltstone.object_store.port import MultipartUpload, UploadedPart
from siltstone.offline.tasks.runner import TaskCodec, TaskFailure


class CopyInput(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the object at ``key`` that one task makes. They are uploaded to ``upload``; when it is None, there
    is one part, which is put as the whole object. Sources and output are in one bucket, unless ``source_url`` names
    another one for the sources; then no part is copied inside the store.

    ``blocks`` are the index entries (``columns.ENTRY``) of the read parts only; the block numbers in ``read`` count in
    them. ``copies``: for each source, pairs of bucket id and URL
    of all places where it is, if any source is in several.
    """

    bucket_url: str
    key: str
    upload: MultipartUpload | None
    source_ids: tuple[int, ...]
    blocks: bytes
    copied: tuple[CopiedPart, ...]
    read: tuple[ReadPart, ...]
    read_request_bytes_max: int
    source_url: str = ""
    copies: tuple[tuple[tuple[int, str], ...], ...] = ()


class CopyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task. When ``failure`` is set, the parts could not be made, and the other fields have no meaning.
    ``bytes_read`` and ``bytes_written`` passed through the task; ``bytes_copied`` were copied inside the store."""

    failure: TaskFailure | None = None
    parts: tuple[UploadedPart, ...] = ()
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_copied: int = 0
    peak_memory_bytes: int = 0


CODEC = TaskCodec(CopyInput, CopyResult)
