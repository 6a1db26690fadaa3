"""What one task of a key compaction is given, and what it answers: a stream, from its first object to a bound.

A *pass* reads all objects given, twice: first it maps the keys of [dirty_offset, bound) to their newest offsets, then
it copies what stays. So that nothing of a key, or of a transaction, is left before what is removed, the objects begin
with the stream, as every pass of Kafka's cleaner does (G7, G23).
"""

import msgspec

from siltstone.maintenance.tasks.task import TaskCodec, TaskFailure
from siltstone.model.objects import ObjectRange


class SourceObject(msgspec.Struct, frozen=True, array_like=True):
    """``held`` is its one range. ``size_bytes`` is that of the whole object."""

    object_id: int
    bucket_id: int
    size_bytes: int
    held: ObjectRange


class KeyCompactionInput(msgspec.Struct, frozen=True, kw_only=True):
    """``sources`` are contiguous, in offset order. Records below ``start_offset`` (trimmed) are dropped with their
    batches; those from ``bound`` on stay whatever their keys. ``map_bytes_max`` bounds the map: when it is full the
    pass ends there, and the next one goes on (G8).

    ``now_ms`` judges what has expired; tombstones that stay begin their time limit at ``horizon_ms`` minus
    ``delete_retention_ms``, that is: new horizons are ``horizon_ms``. ``producer_expiration_ms``: G27.
    ``hash_key``: 16 bytes that key the hash, fixed with the plan, since the bytes of the outputs follow from the unit.

    Outputs are numbered from 0: number n is object ``first_object_id`` + n, there are at most ``object_count_max``, and
    each begins a new one at ``object_bytes``.
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


class WrittenStreamObject(msgspec.Struct, frozen=True, array_like=True):
    """``size_bytes`` of the whole object; ``held`` its one range, as the commit says it."""

    object_id: int
    size_bytes: int
    held: ObjectRange


class KeyCompactionResult(msgspec.Struct, frozen=True, kw_only=True):
    """``cleaned_offset``: the bound, or less when the map was full. ``failure``: why this stream could not be
    compacted, in a sentence; the other fields then say nothing. ``is_unchanged``: nothing could be
    removed, nothing was written.

    ``null_keys``: records without a key that were removed (G6). ``batches_grown``: those that are larger than before,
    being compressed again (G16).
    """

    name: str
    failure: TaskFailure | None = None
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
