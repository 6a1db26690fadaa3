"""Defines the task input and the result of one iteration of a compaction plan, as plain values.

A plan is made before any object id is prepared, so an ``Iteration`` refers to outputs by number. ``IterationInput``
adds the values that were prepared since: the first id, the upload, and the buckets of the outputs with their URLs.
"""

import msgspec

from siltstone.object_store.port import MultipartUpload, UploadedPart
from siltstone.offline.blocks.columns import Read
from siltstone.offline.tasks.runner import TaskCodec, TaskFailure


class SourceReference(msgspec.Struct, frozen=True, array_like=True):
    """``copies``: the further buckets in which the object is."""

    object_id: int
    bucket_id: int
    copies: tuple[int, ...] = ()


class StreamObjectPiece(msgspec.Struct, frozen=True, array_like=True):
    """Stream object number ``number`` of the plan: blocks [first_block, end_block) of the iteration."""

    number: int
    first_block: int
    end_block: int
    size_bytes: int


class PartPiece(msgspec.Struct, frozen=True, array_like=True):
    """A part of the stream set object: blocks [first_block, end_block) of the iteration, then ``trailer`` (index and
    footer, in the last part only). ``position`` is that of the part in the object."""

    part_number: int
    position: int
    first_block: int
    end_block: int
    trailer: bytes


class Iteration(msgspec.Struct, frozen=True):
    """One iteration of a plan. ``blocks`` are index entries (``columns.ENTRY``) whose ``source`` is an index into
    ``sources``; the blocks of one output are contiguous, in the order of writing."""

    number: int
    sources: tuple[SourceReference, ...]
    reads: tuple[Read, ...]
    blocks: bytes
    stream_objects: tuple[StreamObjectPiece, ...]
    part: PartPiece | None
    merged_block_bytes_max: int

    @property
    def bytes_read(self) -> int:
        return sum(read.end - read.start for read in self.reads)


class IterationInput(msgspec.Struct, frozen=True):
    """The task input: an iteration, and the ids and the upload that were prepared for it. The id of an output is
    ``first_object_id`` plus its number. ``upload`` is the multipart upload of the stream set object, which is in the
    bucket ``set_bucket_id``; None when the plan makes none. ``bucket_ids``: the bucket of each of the iteration's
    stream objects."""

    iteration: Iteration
    bucket_urls: dict[int, str]
    set_bucket_id: int
    bucket_ids: tuple[int, ...]
    first_object_id: int
    upload: MultipartUpload | None


class WrittenObject(msgspec.Struct, frozen=True, array_like=True):
    object_id: int
    size_bytes: int


class IterationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task. When ``failure`` is set, it names a source object that could not be read, and the other
    fields have no meaning. ``peak_memory_bytes`` is the peak of the whole process since it began."""

    number: int
    failure: TaskFailure | None = None
    stream_objects: tuple[WrittenObject, ...] = ()
    part: UploadedPart | None = None
    bytes_read: int = 0
    read_requests: int = 0
    bytes_written: int = 0
    write_requests: int = 0
    peak_memory_bytes: int = 0


CODEC = TaskCodec(IterationInput, IterationResult)
