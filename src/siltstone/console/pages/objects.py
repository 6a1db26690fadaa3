"""Objects: the largest, what will be deleted when and why, and the anatomy of one."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.responses import Response

from siltstone.console.application import Asked, PageRefused, number_of
from siltstone.console.views.objects import (
    largest_objects,
    object_row,
    objects_to_delete,
    topics_in,
)
from siltstone.maintenance.retention.next_deletion import NextDeletion, deletion_day, next_deletions
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.console_limits import CONSOLE_ROWS_MAX
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_formats.block_index import BlockIndex
from siltstone.object_store.buckets import read_index
from siltstone.offline.context import MaintenanceContext


async def objects(asked: Asked) -> Response:
    """The list."""
    settings, facts = asked.store.settings, await asked.facts()
    image = facts.image
    return asked.page(
        "objects.html",
        summary=facts.objects,
        buckets={each.id: each for each in bucket_list_of(image).buckets},
        largest=await asked.run(partial(largest_objects, image, asked.visitor.sees)),
        to_delete=objects_to_delete(image, settings.sweep.grace_period_ms),
        grace_period_ms=settings.sweep.grace_period_ms,
    )


async def retention(asked: Asked) -> Response:
    """What retention deletes next, by day: a part of the page, which walks through all segments of the store."""
    image, now_ms = asked.store.image, asked.store.now_ms()
    found = await asked.run(partial(next_deletions, image, now_ms, asked.visitor.sees))
    return asked.page("objects_retention.html", **_retention(found, now_ms))


def _retention(found: Sequence[NextDeletion], now_ms: int) -> dict[str, Any]:
    """``first``: the topics of the first day; ``later`` counts the others."""
    if not found:
        return {"first": (), "later": 0, "day": ""}
    days = [deletion_day(each, now_ms) for each in found]
    first = [each for each, day in zip(found, days, strict=True) if day == days[0]]
    return {"first": first, "later": len(found) - len(first), "day": days[0]}


async def one_object(asked: Asked) -> Response:
    """The anatomy: header, ranges, and the blocks that its index lists."""
    part = asked.part("object")
    found = None if (number := number_of(part)) is None else asked.store.image.objects.get(number)
    if found is None:
        raise PageRefused(404, f"there is no object {part}: it may have been deleted since")
    ranges = [each for each in topics_in(asked.store.image, found) if asked.visitor.sees(each[0])]
    index = None
    if found.state is ObjectState.COMMITTED:
        index = await asked.run(partial(_index_of, asked.store.context, found))
    seen = {each.stream_id for each in found.ranges if _sees(asked, each.stream_id)}
    blocks = [each for each in index or () if each.stream_id in seen]
    return asked.page(
        "object.html",
        row=object_row(asked.store.image, found),
        object=found,
        key=object_key(found.object_id),
        ranges=ranges[:CONSOLE_ROWS_MAX],
        blocks=blocks[:CONSOLE_ROWS_MAX],
        more=max(0, len(blocks) - CONSOLE_ROWS_MAX),
        records=sum(each.record_count for each in blocks),
    )


def _sees(asked: Asked, stream_id: int) -> bool:
    stream = asked.store.image.streams.get(stream_id)
    return stream is not None and asked.visitor.sees(stream.tags.get("topic", ""))


def _index_of(context: MaintenanceContext, found: ObjectMetadata) -> BlockIndex:
    """Reads the index of an object, in a thread."""
    key = object_key(found.object_id)
    copies = context.buckets.copies(found.bucket_ids, f"the index of object {found.object_id}")
    return copies.read(lambda store: read_index(store, key, found.size_bytes))
