"""Which objects are due: prepared ones past their deadline, destroyed ones past their grace period (rule 6).

Pure selections from an image; the sweep of ``maintenance`` acts on them.
"""

from heapq import nsmallest

from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import ImageView


def expired_objects(image: ImageView, now_ms: int, count_max: int) -> list[int]:
    """Ids of prepared objects whose deadline has passed, oldest first."""
    due = (object_id for object_id, deadline_ms in image.prepared.items() if deadline_ms <= now_ms)
    return nsmallest(count_max, due)


def grace_is_over(destroyed_ms: int, now_ms: int, grace_period_ms: int) -> bool:
    return destroyed_ms + grace_period_ms <= now_ms


def deletable_objects(
    image: ImageView, now_ms: int, grace_period_ms: int, count_max: int
) -> list[ObjectMetadata]:
    """Destroyed objects that no reader can still hold an image of, oldest first: delete their bytes from their
    bucket, then forget them."""
    due = (
        object_id
        for object_id, destroyed_ms in image.destroyed.items()
        if grace_is_over(destroyed_ms, now_ms, grace_period_ms)
    )
    return [image.objects[object_id] for object_id in nsmallest(count_max, due)]
