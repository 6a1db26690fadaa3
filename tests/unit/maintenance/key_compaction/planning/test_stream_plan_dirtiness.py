import pytest

from siltstone.maintenance.key_compaction.planning.stream_plan import Dirtiness, waited_ms, why_dirty_enough
from siltstone.model.limits import HOUR_MS
from siltstone.topic_configs.table import TopicConfig, parse_topic_configs

MINUTES_5 = 300_000


def config(**texts: str) -> TopicConfig:
    return parse_topic_configs({key.replace("_", "."): text for key, text in texts.items()})


@pytest.mark.parametrize(
    ("clean", "dirty", "is_enough"),
    [(60, 40, False), (50, 50, False), (40, 60, True), (0, 1, True), (0, 0, False)],
)
def test_k11_strictly_above_the_ratio(clean, dirty, is_enough) -> None:
    found = why_dirty_enough(Dirtiness(clean, dirty), config(), None)
    assert (found is not None) == is_enough


def test_a_ratio_of_zero_still_wants_something_dirty() -> None:
    lenient = config(min_cleanable_dirty_ratio="0")
    assert why_dirty_enough(Dirtiness(10, 0), lenient, None) is None
    assert why_dirty_enough(Dirtiness(1000, 1), lenient, None) is not None


@pytest.mark.parametrize(("waited", "is_enough"), [(HOUR_MS, False), (HOUR_MS + 1, True), (None, False)])
def test_k12_longer_than_the_longest_lag(waited, is_enough) -> None:
    limited = config(max_compaction_lag_ms=str(HOUR_MS))
    assert (why_dirty_enough(Dirtiness(90, 10), limited, waited) is not None) == is_enough


def test_the_reasons_are_sentences_with_figures() -> None:
    dirtiness = Dirtiness(1024, 3 * 1024)
    assert why_dirty_enough(dirtiness, config(), None) == (
        "3.0 KiB of 4.0 KiB dirty, 0.75, above min.cleanable.dirty.ratio 0.5"
    )
    limited = config(max_compaction_lag_ms="60000")
    assert why_dirty_enough(Dirtiness(9, 1), limited, MINUTES_5) == (
        "new records have waited 5 min 00 s, longer than max.compaction.lag.ms (60.0 s)"
    )


def test_it_waits_since_the_oldest_dirty_segment_was_begun(world) -> None:
    stream = world.topic()
    world.objects(stream, 100, 200, 300)
    for end, age_ms in ((100, 9 * HOUR_MS), (200, 5 * HOUR_MS), (300, 7 * HOUR_MS)):
        world.roll(stream, end, open_ms=age_ms)
    metadata = world.stream(stream)
    assert waited_ms(metadata, 0, 300, world.now_ms) == 9 * HOUR_MS
    assert waited_ms(metadata, 99, 300, world.now_ms) == 9 * HOUR_MS
    assert waited_ms(metadata, 100, 300, world.now_ms) == 7 * HOUR_MS
    assert waited_ms(metadata, 100, 200, world.now_ms) == 5 * HOUR_MS
    assert waited_ms(metadata, 300, 300, world.now_ms) is None
