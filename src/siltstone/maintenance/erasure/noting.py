"""Notes in the metadata which objects held records of erased keys, and what has become of them and of others.

An object is noted before it is replaced, so that a report names it whatever happens to the driver afterwards. Later
looks add when it was replaced, and when no bucket had it any more: each bucket is asked, since that the metadata has
forgotten an object proves nothing about a bucket.

Objects that are not in use may hold records of the keys, too (``leftovers``). An erasure is cleared when none is left
that is older than its verification.

Nodes drop what they keep of uploaded records, batches in memory and files of their logs, with a flush while an erasure
is pending. That all have done it is noted, too, and nothing is verified before: the command that asked for it may have
been killed in between, or a node may have died.
"""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from siltstone.maintenance.erasure.carrying_out import ErasedSource
from siltstone.maintenance.erasure.leftovers import count_leftovers, is_in
from siltstone.maintenance.erasure.planning import StreamToErase
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.erasures import (
    ErasedObject,
    erased_objects,
    erasure_of,
    erasures_of,
    put_erased_object,
    put_erasure,
)
from siltstone.scanning.failures import NodeNotFlushed
from siltstone.scanning.flushing import flush_nodes


def note_holders(context: MaintenanceContext, stream: StreamToErase, holders: Sequence[ErasedSource]) -> None:
    """Notes which objects of a stream hold records, for each erasure. Raises what the metadata raises."""
    for holder in holders:
        for erasure, records in zip(stream.erasures, holder.erased, strict=True):
            if records:
                held = ErasedObject(
                    object_id=holder.source.object_id,
                    partition=stream.partition,
                    size_bytes=holder.source.size_bytes,
                    records=records,
                    bucket_ids=holder.source.bucket_ids,
                    found_ms=context.now_ms(),
                )
                context.metadata.execute(put_erased_object(erasure.erasure_id, held))


def erasure_ids_of(streams: Iterable[StreamToErase]) -> frozenset[str]:
    return frozenset(each.erasure_id for stream in streams for each in stream.erasures)


def observe(context: MaintenanceContext, erasure_ids: Iterable[str]) -> None:
    """Notes which objects were replaced or deleted since the last look. A bucket that does not answer leaves its
    objects as they are. Raises what the metadata and the buckets raise."""
    image = context.metadata.refresh()
    for erasure_id in sorted(erasure_ids):
        for held in erased_objects(image, erasure_id):
            seen = _seen(context, image, held)
            if seen != held:
                context.metadata.execute(put_erased_object(erasure_id, seen))
        _clear(context, image, erasure_id)


def _seen(context: MaintenanceContext, image: MetadataImage, held: ErasedObject) -> ErasedObject:
    if held.deleted_ms or committed_object(image, held.object_id) is not None:
        return held
    now_ms = context.now_ms()
    named = image.objects.get(held.object_id)
    replaced_ms = held.replaced_ms or (now_ms if named is None else named.destroyed_ms)
    # Every bucket is asked: the object may have been moved, or copied, after it was noted.
    buckets = {*held.bucket_ids, *context.buckets.urls}
    is_gone = named is None and not any(is_in(context, each, held.object_id) for each in sorted(buckets))
    return msgspec.structs.replace(held, replaced_ms=replaced_ms, deleted_ms=now_ms if is_gone else 0)


def _clear(context: MaintenanceContext, image: MetadataImage, erasure_id: str) -> None:
    """Notes how many objects that are not in use a bucket has, and when it was none."""
    erasure = erasure_of(image, erasure_id)
    if erasure is None or erasure.verification is None or erasure.cleared_ms:
        return
    leftovers = count_leftovers(context, image, erasure)
    cleared_ms = 0 if leftovers else context.now_ms()
    seen = msgspec.structs.replace(erasure, leftovers=leftovers, cleared_ms=cleared_ms)
    if seen != erasure:
        context.metadata.execute(put_erasure(image, seen))


def drop_kept(
    context: MaintenanceContext, erasure_ids: Iterable[str], check: Callable[[], None] = lambda: None
) -> dict[str, str]:
    """Flushes all nodes unless each erasure is marked as flushed, and marks the others. Returns the reason for each
    erasure that stays unmarked: a node may still keep records of its keys. Raises what the metadata and ``check``
    raise."""
    wanted = frozenset(erasure_ids)
    image = context.metadata.refresh()
    unflushed = {
        each.erasure_id for each in erasures_of(image) if each.erasure_id in wanted and not each.flushed_ms
    }
    if not unflushed:
        return {}
    try:
        flush_nodes(context, check)
    except NodeNotFlushed as trouble:
        return dict.fromkeys(unflushed, str(trouble))
    image = context.metadata.refresh()
    for erasure in erasures_of(image):
        if erasure.erasure_id in unflushed:
            flushed = msgspec.structs.replace(erasure, flushed_ms=context.now_ms())
            context.metadata.execute(put_erasure(image, flushed))
    return {}
