"""The objects that a compaction replaces."""

from collections.abc import Sequence

from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import ImageView
from siltstone.metadata.refusals import CompactedObjectsNotFound
from siltstone.model.objects import ObjectState


def committed_sources(view: ImageView, compacted: Sequence[int]) -> list[ObjectMetadata]:
    """Each once, by id. Raises CompactedObjectsNotFound unless all are COMMITTED."""
    sources = [view.objects.get(object_id) for object_id in sorted(set(compacted))]
    found = [source for source in sources if source is not None and source.state is ObjectState.COMMITTED]
    if len(found) < len(sources):
        missing = sorted(set(compacted) - {source.object_id for source in found})
        raise CompactedObjectsNotFound(
            f"objects {missing[:10]} are compacted or destroyed already; plan again"
        )
    return found
