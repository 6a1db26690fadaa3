"""Counts the objects in the buckets that are not in use and may hold records of erased keys.

Compaction may have replaced objects before the erasure looked; these are deleted after the grace period. A driver may
have put objects that it never committed; these stay until their time limit, a day for some kinds. The latter are looked
at, since most hold no record of the keys: the outputs of an erasure that was killed, or other topics' data. What sinks
have staged is not looked at, and counts.
"""

import logging
from collections.abc import Iterator

from siltstone.maintenance.erasure.task import erase
from siltstone.maintenance.erasure.task_input import ErasureInput
from siltstone.maintenance.record_rewriting.values import SourceObject
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.sinks import STAGING_PREFIX
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import MIB
from siltstone.model.objects import ObjectRange, object_key
from siltstone.object_store.buckets import read_index
from siltstone.object_store.port import ObjectNotFound
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.erasures import Erasure, StreamErasure
from siltstone.record_columns.kernels.choosing import best_kernels
from siltstone.sinking.staged_sweep import has_sinks

LOOKED_AT_BYTES_MAX = 64 * MIB
"""A larger object counts without a look: the look is made in this process, each time that somebody asks."""

READ_REQUEST_BYTES_MAX = 16 * MIB

log = logging.getLogger(__name__)


def count_leftovers(context: MaintenanceContext, image: MetadataImage, erasure: Erasure) -> int:
    """Returns the number of these objects that are older than the verification. A destroyed object counts until the
    metadata has forgotten it. Raises what a bucket raises when it is listed."""
    verified = erasure.verification
    assert verified is not None
    destroyed = sum(each < verified.next_object_id for each in image.destroyed)
    wanted = _wanted(image, erasure)
    prepared = sum(
        _may_hold(context, bucket_id, object_id, wanted)
        for object_id in list(image.prepared)
        if object_id < verified.next_object_id
        for bucket_id in image.objects[object_id].every_bucket_id
    )
    return destroyed + prepared + _staged(context, verified.verified_ms)


def is_in(context: MaintenanceContext, bucket_id: int, object_id: int) -> bool:
    """Returns True also when the bucket does not answer."""
    return _size_in(context, bucket_id, object_id) is not None


def _size_in(context: MaintenanceContext, bucket_id: int, object_id: int) -> int | None:
    """Returns the size of an object in a bucket; 0 when the bucket does not answer, None when it is not there."""
    if bucket_id not in context.buckets.urls:
        return None  # a bucket that was removed from the store was emptied before
    try:
        return context.buckets.store(bucket_id).head(object_key(object_id)).size_bytes
    except ObjectNotFound:
        return None
    except SiltstoneError as trouble:
        log.warning("bucket %d was not asked for object %d: %s", bucket_id, object_id, trouble)
        return 0


def _wanted(image: MetadataImage, erasure: Erasure) -> dict[int, StreamErasure] | None:
    """Returns what the erasure wants of each stream; None if the topic was deleted since, so that its streams are not
    known."""
    topic = image.topics.get(erasure.topic_id)
    if topic is None:
        return None
    hashes = tuple(each.hash for each in erasure.keys)
    return {
        each.data_stream_id: StreamErasure(erasure.erasure_id, erasure.hash_key, hashes, bound)
        for each, bound in zip(topic.partitions, erasure.bounds, strict=False)
        if bound
    }


def _may_hold(
    context: MaintenanceContext, bucket_id: int, object_id: int, wanted: dict[int, StreamErasure] | None
) -> bool:
    size_bytes = _size_in(context, bucket_id, object_id)
    if size_bytes is None:
        return False
    if wanted is None or not 0 < size_bytes <= LOOKED_AT_BYTES_MAX:
        return True
    try:
        held = list(_held(context, bucket_id, object_id, size_bytes, wanted))
    except SiltstoneError as trouble:
        log.warning("object %d of bucket %d could not be looked at: %s", object_id, bucket_id, trouble)
        return True
    sources = [SourceObject(object_id, bucket_id, size_bytes, each) for each in held]
    return any(_holds(context, each, wanted[each.held.stream_id]) for each in sources)


def _held(
    context: MaintenanceContext,
    bucket_id: int,
    object_id: int,
    size_bytes: int,
    wanted: dict[int, StreamErasure],
) -> Iterator[ObjectRange]:
    """Yields what an object holds of the streams, by its index."""
    index = read_index(context.buckets.store(bucket_id), object_key(object_id), size_bytes)
    blocks = [each for each in index if each.stream_id in wanted]
    for stream_id in sorted({each.stream_id for each in blocks}):
        of_stream = [each for each in blocks if each.stream_id == stream_id]
        start, end = of_stream[0].start_offset, of_stream[-1].end_offset
        yield ObjectRange(stream_id, object_id, start, end, size_bytes, 0)


def _holds(context: MaintenanceContext, source: SourceObject, wanted: StreamErasure) -> bool:
    given = ErasureInput(
        stream_id=source.held.stream_id,
        sources=(source,),
        erasures=(wanted,),
        start_offset=source.held.start_offset,
        read_request_bytes_max=READ_REQUEST_BYTES_MAX,
        block_bytes=MIB,
        object_bytes=MIB,
        bucket_urls={source.bucket_id: context.buckets.urls[source.bucket_id]},
    )
    result = erase(given, best_kernels())
    return result.failure is not None or any(result.erased)


def _staged(context: MaintenanceContext, until_ms: int) -> int:
    if not has_sinks(context):
        return 0
    return sum(
        each.modified_ms <= until_ms
        for bucket_id in context.buckets.urls
        for each in context.buckets.store(bucket_id).list(STAGING_PREFIX)
    )
