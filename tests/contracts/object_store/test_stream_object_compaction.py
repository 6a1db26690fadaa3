"""Stream object compaction over every adapter, with the sizes that S3 asks for: what a store takes as a part, and what
it copies by itself, is for the real one to say."""

import pytest

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.model.limits import KIB, MIB
from siltstone.model.objects import ObjectKind
from siltstone.object_store.port import ObjectStore
from siltstone.offline.settings import StreamObjectCompactionSettings
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.opened_stores import stores_opened
from support.maintenance.stream_object_world import Block, add_stream_object, joined_up

SETTINGS = StreamObjectCompactionSettings(settled_ms=0, largest_share_max=1.0, copy_bytes_max=10 * MIB)
SIZES = (11 * MIB, 6 * MIB, 1 * MIB, 512 * KIB, 7 * MIB, 6 * MIB, 1 * MIB)


def blocks(first: int, size_bytes: int) -> list[Block]:
    """Of 512 KiB, ten offsets each."""
    count = size_bytes // (512 * KIB)
    return [(first + 10 * at, first + 10 * at + 10, 512 * KIB) for at in range(count)]


def filled(store: ObjectStore) -> CompactionWorld:
    world = CompactionWorld(store)
    for size_bytes in SIZES:
        streams = world.metadata.image.streams
        end = streams[0].end_offset if 0 in streams else 0
        add_stream_object(world, 0, *blocks(end, size_bytes))
    return world


@pytest.mark.parametrize("trimmed_blocks", [0, 1])
def test_ranges_are_joined_inside_the_store(store: ObjectStore, trimmed_blocks: int) -> None:
    world = filled(store)
    world.trim(0, 10 * trimmed_blocks)
    before = world.records()
    with stores_opened(world.store):
        (done,) = joined_up(world, SETTINGS).units
    assert done.outcome is Outcome.DONE, done.text
    assert world.records() == before
    world.assert_sound()
    (object_id,) = world.ids(ObjectKind.STREAM_OBJECT)
    (held,) = world.metadata.image.objects[object_id].ranges
    assert held.size_bytes == sum(SIZES) - trimmed_blocks * 512 * KIB
    # 1.5 MiB are too small for a part, so 3.5 MiB of what follows come along, and all 7 as 3.5 would be too small;
    # the last one goes with index and footer.
    assert done.bytes_read == (1 + 7 + 1) * MIB + 512 * KIB
    calls = [name for name, _ in world.store.history]
    assert (calls.count("copy_part"), calls.count("upload_part")) == (2 + 1 + 1, 2)
    assert list(store.list_multipart()) == []
