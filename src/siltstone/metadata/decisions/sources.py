"""The objects that a compaction replaces."""

from collections.abc import Sequence

from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import ImageView
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.refusals import CompactedObjectsNotFound


def committed_sources(view: ImageView, compacted: Sequence[int]) -> list[ObjectMetadata]:
    """Each once, by id. Raises CompactedObjectsNotFound unless all are COMMITTED."""
    wanted = sorted(set(compacted))
    found = [source for each in wanted if (source := committed_object(view, each)) is not None]
    if len(found) < len(wanted):
        missing = sorted(set(wanted) - {source.object_id for source in found})
        raise CompactedObjectsNotFound(
            f"objects {missing[:10]} are compacted or destroyed already; plan again"
        )
    return found
