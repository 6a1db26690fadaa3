"""What a shorter retention time would save is what retention would trim with it, and not now."""

from msgspec.structs import replace

from siltstone.costing.estimate import CostPrices
from siltstone.costing.retention import retention_savings
from siltstone.maintenance.retention.groups import GroupProgress, encode_progress, key_of
from siltstone.metadata.commands import AlterTopicConfigs, PutKey
from siltstone.model.limits import GIB, HOUR_MS
from siltstone.model.segments import ClosedSegment
from support.metadata.metadata_world import MetadataWorld
from support.metadata.queried_store import FLIGHTS, queried_world

PRICES = CostPrices(0, 0, GIB, 0)
NOW_MS = 10 * HOUR_MS


def segmented(*ages_ms: int) -> MetadataWorld:
    """flights-0 has ten offsets and 100 bytes in each of its closed segments, so old; its present time is 5 hours."""
    world = queried_world()
    world.do(AlterTopicConfigs(FLIGHTS, {"retention.ms": str(5 * HOUR_MS)}))
    segments = tuple(
        ClosedSegment(10 * number, 10 * number + 10, 100, 1, NOW_MS - age_ms, 1, 1)
        for number, age_ms in enumerate(ages_ms)
    )
    draft = world.image.streams.draft()
    draft[0] = replace(draft[0], start_offset=0, segments=segments)
    world.image = replace(world.image, streams=draft.frozen())
    return world


def saved(world: MetadataWorld, retention_ms: int) -> dict[str, int]:
    found = retention_savings(world.image, retention_ms, NOW_MS, PRICES)
    assert all(each.saved == each.saved_bytes for each in found)
    return {each.topic: each.saved_bytes for each in found}


def test_a_shorter_time_saves_the_segments_between_the_two() -> None:
    """Of three segments the first is due already."""
    world = segmented(6 * HOUR_MS, 4 * HOUR_MS, 2 * HOUR_MS)
    assert saved(world, 3 * HOUR_MS)["flights"] == 100
    assert saved(world, HOUR_MS)["flights"] == 200


def test_a_time_that_is_not_shorter_saves_nothing() -> None:
    world = segmented(6 * HOUR_MS, 4 * HOUR_MS, 2 * HOUR_MS)
    assert saved(world, 5 * HOUR_MS)["flights"] == saved(world, 9 * HOUR_MS)["flights"] == 0


def test_what_is_kept_for_ever_would_be_limited() -> None:
    world = segmented(6 * HOUR_MS, 4 * HOUR_MS, 2 * HOUR_MS)
    world.do(AlterTopicConfigs(FLIGHTS, {"retention.ms": "-1"}))
    assert saved(world, 3 * HOUR_MS)["flights"] == 200


def test_a_group_that_retention_waits_for_keeps_its_records() -> None:
    world = segmented(6 * HOUR_MS, 4 * HOUR_MS, 2 * HOUR_MS)
    configs = {"siltstone.retention.ack": "true", "siltstone.retention.groups": "slow"}
    world.do(AlterTopicConfigs(FLIGHTS, configs))
    world.do(PutKey(key_of("slow"), encode_progress(GroupProgress({FLIGHTS: (10, 0)}))))
    assert saved(world, HOUR_MS)["flights"] == 0


def test_compacted_topics_are_left_out() -> None:
    world = segmented(6 * HOUR_MS)
    world.do(AlterTopicConfigs(FLIGHTS, {"cleanup.policy": "compact"}))
    assert set(saved(world, HOUR_MS)) == {"planes"}
