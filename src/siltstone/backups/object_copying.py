"""Copies objects between buckets of different stores, byte for byte and under the same keys.

An object is written once and never changed, so an object of the same size that is there already is the same, and a copy
that was interrupted is continued by repeating it.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import READ_REQUEST_BYTES_MAX
from siltstone.model.objects import object_key
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.port import ObjectNotFound, ObjectStore, UploadedPart

COPY_THREADS = 8
"""Copies under way; each holds the bytes of one request."""

OBJECTS_AT_ONCE = 1_000
"""Objects that wait for a thread."""

OnCopied = Callable[[int, int], None]
"""(objects that are done, objects in all)"""


class CopiedObjects(msgspec.Struct, frozen=True):
    """``missing``: ids of the objects that are in none of their buckets any more. ``copied_bytes`` counts what was
    written now, ``size_bytes`` what is at the target."""

    count: int
    size_bytes: int
    copied_bytes: int
    missing: tuple[int, ...]


def copy_objects(
    objects: Sequence[ObjectMetadata],
    source_of: Callable[[ObjectMetadata], Iterable[ObjectStore]],
    target: ObjectStore,
    on_copied: OnCopied = lambda done, total: None,
) -> CopiedObjects:
    """Copies the objects. ``source_of`` returns the buckets in which an object is, the best first. Raises what the
    buckets raise, but not for a bucket if another one has the object."""
    count = size_bytes = copied_bytes = 0
    missing: list[int] = []

    def copied(one: ObjectMetadata) -> int | None:
        return _copy_from_any(one, source_of(one), target)

    with ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="copy") as pool:
        for first in range(0, len(objects), OBJECTS_AT_ONCE):
            batch = objects[first : first + OBJECTS_AT_ONCE]
            for one, written in zip(batch, pool.map(copied, batch), strict=True):
                if written is None:
                    missing.append(one.object_id)
                else:
                    count, size_bytes = count + 1, size_bytes + one.size_bytes
                    copied_bytes += written
                on_copied(count + len(missing), len(objects))
    return CopiedObjects(count, size_bytes, copied_bytes, tuple(missing))


def buckets_of(buckets: Buckets, one: ObjectMetadata) -> Iterable[ObjectStore]:
    """Yields the buckets that have the object by the metadata."""
    return (buckets.store(bucket_id) for bucket_id in one.bucket_ids)


def _copy_from_any(one: ObjectMetadata, sources: Iterable[ObjectStore], target: ObjectStore) -> int | None:
    """Returns how many bytes were written; None if the object is in none of the sources."""
    key, trouble = object_key(one.object_id), None
    if _has(target, key, one.size_bytes):
        return 0
    for source in sources:
        try:
            _copy(source, target, key, one.size_bytes)
            return one.size_bytes
        except ObjectNotFound:
            continue
        except SiltstoneError as failure:
            trouble = failure
    if trouble is not None:
        raise trouble
    return None


def _has(store: ObjectStore, key: str, size_bytes: int) -> bool:
    try:
        return store.head(key).size_bytes == size_bytes
    except ObjectNotFound:
        return False


def _copy(source: ObjectStore, target: ObjectStore, key: str, size_bytes: int) -> None:
    if size_bytes <= READ_REQUEST_BYTES_MAX:
        target.put(key, [source.get_range(key, 0, size_bytes)])
        return
    source.head(key)  # so that no upload is started for an object that is gone
    upload = target.start_multipart(key)
    try:
        parts: list[UploadedPart] = []
        for start in range(0, size_bytes, READ_REQUEST_BYTES_MAX):
            data = source.get_range(key, start, min(start + READ_REQUEST_BYTES_MAX, size_bytes))
            parts.append(target.upload_part(upload, len(parts) + 1, start, [data]))
        target.complete_multipart(upload, parts)
    except BaseException:
        target.abort_multipart(upload)
        raise
