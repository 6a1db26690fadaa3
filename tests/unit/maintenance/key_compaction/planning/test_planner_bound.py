import pytest

from siltstone.maintenance.key_compaction.planning.planner import (
    CompactionBound,
    bound_of,
    bound_up_to,
    clean_offset,
    prefix_of,
)
from siltstone.model.limits import HOUR_MS, MINUTE_MS
from siltstone.offline.topic_streams import topic_streams
from support.maintenance.keyed_metadata import KeyedMetadata


def bound(world: KeyedMetadata, stream_id: int) -> CompactionBound:
    stream = world.stream(stream_id)
    config = topic_streams(world.image)[stream_id].config
    return bound_of(stream, config, prefix_of(world.image, stream), world.now_ms)


def test_g1_the_active_segment_is_left_alone(world) -> None:
    stream = world.topic()
    world.objects(stream, 100, 200)
    world.roll(stream, 150, newest_age_ms=9 * HOUR_MS)
    assert bound(world, stream) == CompactionBound(150, "the active segment begins at offset 150")


def test_g1_without_a_closed_segment_there_is_nothing(world) -> None:
    stream = world.topic()
    world.objects(stream, 100)
    world.trim(stream, 40)
    assert bound(world, stream).offset == 40


def test_no_further_than_the_objects(world) -> None:
    stream = world.topic()
    world.objects(stream, 100)
    world.roll(stream, 150)
    assert bound(world, stream) == CompactionBound(100, "no object holds offset 100 yet")


def test_no_further_than_a_stream_set_object(world) -> None:
    stream = world.topic()
    world.objects(stream, 100)
    world.objects(stream, 150, in_set=True)
    world.roll(stream, 150)
    assert bound(world, stream).offset == 100
    assert "stream set object 1, which sso-compaction splits first" in bound(world, stream).limit


def test_k10_segments_younger_than_the_lag(world) -> None:
    stream = world.topic(min_compaction_lag_ms=str(HOUR_MS))
    world.objects(stream, 100, 200, 300)
    world.roll(stream, 100, newest_age_ms=2 * HOUR_MS)
    world.roll(stream, 200, newest_age_ms=30 * MINUTE_MS)
    world.roll(stream, 300, newest_age_ms=3 * HOUR_MS)
    assert bound(world, stream).offset == 100
    assert "younger than min.compaction.lag.ms" in bound(world, stream).limit


@pytest.mark.parametrize(("age_ms", "offset"), [(HOUR_MS - 1, 0), (HOUR_MS, 100), (HOUR_MS + 1, 100)])
def test_g3_exactly_the_lag(world, age_ms, offset) -> None:
    stream = world.topic(min_compaction_lag_ms=str(HOUR_MS))
    world.objects(stream, 100)
    world.roll(stream, 100, newest_age_ms=age_ms)
    assert bound(world, stream).offset == offset


def test_g3_a_young_record_in_what_is_clean_holds_nothing_up(world) -> None:
    stream = world.topic(min_compaction_lag_ms=str(HOUR_MS))
    world.objects(stream, 100, 200)
    world.roll(stream, 100, newest_age_ms=-HOUR_MS)
    world.roll(stream, 200, newest_age_ms=2 * HOUR_MS)
    assert bound(world, stream).offset == 0
    world.cleaned(stream, 100)
    assert bound(world, stream).offset == 200


def test_a_segment_that_was_trimmed_in_the_middle_bounds_at_the_start(world) -> None:
    stream = world.topic(min_compaction_lag_ms=str(HOUR_MS))
    world.objects(stream, 100)
    world.roll(stream, 100)
    world.trim(stream, 30)
    assert bound(world, stream).offset == 30


def test_up_to_heeds_the_objects_alone(world) -> None:
    stream = world.topic(min_compaction_lag_ms=str(HOUR_MS))
    world.objects(stream, 100)
    prefix = prefix_of(world.image, world.stream(stream))
    assert bound_up_to(60, prefix) == CompactionBound(60, "offset 60 was requested")
    assert bound_up_to(160, prefix).offset == 100


def test_g29_what_is_dirty_begins_no_earlier_than_the_stream(world) -> None:
    stream = world.topic()
    world.objects(stream, 100)
    world.cleaned(stream, 20)
    assert clean_offset(world.stream(stream)) == 20
    world.trim(stream, 70)
    assert clean_offset(world.stream(stream)) == 70
