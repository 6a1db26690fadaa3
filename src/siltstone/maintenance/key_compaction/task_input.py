"""Defines the task input and the result of a key compaction: one stream, from its first object up to a bound.

A task scans all objects of its input twice: the first scan maps the keys of [dirty_offset, bound) to their newest
offsets, the second one copies the records that stay. The objects begin with the start of the stream, as every pass of
Kafka's cleaner does, so that no record of a key or a transaction stays before records that are removed (G7, G23).
"""

import msgspec

from siltstone.maintenance.record_rewriting.values import SourceObject, WrittenStreamObject
from siltstone.offline.tasks.runner import TaskCodec, TaskFailure


class KeyCompactionInput(msgspec.Struct, frozen=True, kw_only=True):
    """A task that has run for ``pass_ms_max`` ends without a result; 0 means no limit.

    ``sources`` are contiguous, in offset order. Records below ``start_offset`` were trimmed and are dropped;
    records from ``bound`` on stay whatever their keys are. ``map_bytes_max`` limits the key map: when it is full, the
    stream is compacted up to the offset reached, and the next run continues there (G8).

    Delete horizons are compared with ``now_ms``; ``horizon_ms`` is the delete horizon of batches that get one now.
    Producers are forgotten after ``producer_expiration_ms`` (G27). ``hash_key`` is the 16-byte key of the hash of
    record keys; it is part of the input because the outputs must follow from the input.

    ``commit_markers_end`` is set where transactions have written: only markers below it may be removed, and of these
    only markers of commits. A snapshot says what was open at an offset, so a marker behind it is needed; and a client
    to which the broker names an aborted transaction waits for its marker.

    Output number n, counted from 0, is object ``first_object_id`` + n. An output is closed when it has
    ``object_bytes``, and there are at most ``object_count_max``.
    """

    name: str
    stream_id: int
    sources: tuple[SourceObject, ...]
    start_offset: int
    dirty_offset: int
    bound: int
    now_ms: int
    horizon_ms: int
    producer_expiration_ms: int
    map_bytes_max: int
    memory_bytes: int
    read_request_bytes_max: int
    block_bytes: int
    object_bytes: int
    first_object_id: int
    object_count_max: int
    output_bucket_id: int
    bucket_urls: dict[int, str]
    hash_key: bytes
    pass_ms_max: int = 0
    commit_markers_end: int | None = None


class KeyCompactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task. When ``failure`` is set, the stream could not be compacted, and the other fields have no
    meaning. ``cleaned_offset`` is the bound, or less when the key map was full. ``is_unchanged`` says that nothing
    could be removed and nothing was written.

    When ``ran_late`` is set, the time limit had passed before the task was done, and of the other fields only
    ``mapped_offset`` has a meaning: the offset up to which keys were mapped by then.

    ``null_keys`` counts records without a key that were removed (G6), ``batches_grown`` batches that became larger when
    they were compressed again (G16).
    """

    name: str
    failure: TaskFailure | None = None
    ran_late: bool = False
    mapped_offset: int = 0
    is_unchanged: bool = False
    cleaned_offset: int = 0
    objects: tuple[WrittenStreamObject, ...] = ()
    records_read: int = 0
    records_kept: int = 0
    keys_mapped: int = 0
    tombstones_kept: int = 0
    null_keys: int = 0
    batches_read: int = 0
    batches_kept: int = 0
    batches_copied: int = 0
    batches_emptied: int = 0
    batches_grown: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    peak_memory_bytes: int = 0
    map_was_full: bool = False


CODEC = TaskCodec(KeyCompactionInput, KeyCompactionResult)
