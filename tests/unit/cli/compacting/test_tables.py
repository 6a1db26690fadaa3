"""What is said of a plan without work. The tables themselves: test_compact."""

import pytest

from siltstone.cli.compacting.tables import nothing_shown
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.maintenance.planning.planner import plan_compaction
from siltstone.maintenance.planning.sources import LeftOut
from siltstone.maintenance.settings import CompactionSettings
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.model.objects import ObjectKind, ObjectState

SET, OWN = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT


def image_of(*kinds: ObjectKind | None) -> MetadataImage:
    """Without a kind: prepared, not committed."""
    draft = ImageDraft(MetadataImage())
    for object_id, kind in enumerate(kinds):
        state = ObjectState.COMMITTED if kind else ObjectState.PREPARED
        draft.objects[object_id] = ObjectMetadata(object_id, state, 0, kind, 1, 0, 0, 0, 0, ())
    return draft.frozen(1)


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (image_of(None), ": there are no objects."),
        (image_of(OWN, OWN, None), ": no stream set object, 2 stream objects."),
        (image_of(SET, OWN, SET), ": of 2 stream set objects no two hold the same stream."),
    ],
)
def test_why_there_is_nothing_to_compact(image: MetadataImage, reason: str) -> None:
    plan = plan_compaction((), image.streams, CompactionSettings(), 0)
    assert nothing_shown(plan, image) == f"Nothing to compact{reason}"


def test_what_is_left_out_has_a_table_of_its_own_with_reasons() -> None:
    plan = plan_compaction((), ShardedMap(), CompactionSettings(), 0, left_out=[LeftOut(0, "damaged")])
    assert nothing_shown(plan, image_of(SET)) == "Nothing to compact."
