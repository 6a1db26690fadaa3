"""Defines the task input and the result of an erasure: one stream object, or the range of one stream in an object."""

import msgspec

from siltstone.maintenance.record_rewriting.values import SourceObject, WrittenStreamObject
from siltstone.offline.erasures import StreamErasure
from siltstone.offline.tasks.runner import TaskCodec, TaskFailure


class ErasureInput(msgspec.Struct, frozen=True, kw_only=True):
    """With ``object_count_max`` 0 the task only looks: it counts the records and writes nothing. Otherwise it writes
    the batches of the one source again, without the records of the keys; output number n, counted from 0, is object
    ``first_object_id`` + n. An output is closed when it has ``object_bytes``, and there are at most
    ``object_count_max``."""

    stream_id: int
    sources: tuple[SourceObject, ...]
    erasures: tuple[StreamErasure, ...]
    start_offset: int
    read_request_bytes_max: int
    block_bytes: int
    object_bytes: int
    bucket_urls: dict[int, str]
    first_object_id: int = 0
    object_count_max: int = 0
    output_bucket_id: int = 0


class ErasureResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task. When ``failure`` is set, the other fields have no meaning. ``erased`` has, for each erasure
    of the input, the number of records with its keys."""

    failure: TaskFailure | None = None
    erased: tuple[int, ...] = ()
    records_read: int = 0
    bytes_read: int = 0
    objects: tuple[WrittenStreamObject, ...] = ()
    bytes_written: int = 0
    peak_memory_bytes: int = 0


CODEC = TaskCodec(ErasureInput, ErasureResult)
