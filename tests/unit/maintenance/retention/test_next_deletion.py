"""What retention deletes next, and on which day: the planner at that day deletes it, and the day before nothing."""

import pytest

from siltstone.carrying.pipeline.kind import Scope
from siltstone.foundation.quantity_words import time_words
from siltstone.maintenance.retention.next_deletion import day_words, next_deletion, next_deletions
from siltstone.maintenance.retention.planning import plan_retention
from siltstone.model.limits import DAY_MS, HOUR_MS, MIB
from support.maintenance.retained_store import RetainedStore


@pytest.fixture
def store() -> RetainedStore:
    return RetainedStore()


def test_the_day_and_how_much_are_what_the_planner_trims_then(store):
    topic = store.topic("flights", 2, retention_ms=str(7 * DAY_MS))
    now_ms = store.clock.now_ms()
    until_evening_ms = DAY_MS - now_ms % DAY_MS
    store.fill(topic, [5 * DAY_MS, 5 * DAY_MS - HOUR_MS, 3 * DAY_MS, 0], size_bytes=100)
    store.fill(topic, [5 * DAY_MS - until_evening_ms - HOUR_MS, 0], 1, size_bytes=1_000)
    found = next_deletion(store.image, topic, now_ms)
    assert found.due_ms == now_ms + 2 * DAY_MS + 1
    assert (found.offsets, found.size_bytes, found.why_none) == (60, 200, "")

    def planned(at_ms: int) -> int:
        trims = plan_retention(store.image, Scope(), at_ms, lambda _: None).topics
        return sum(each.offsets for each in trims.values())

    assert planned(found.due_ms - 1) == 0 and planned(found.due_ms) == 30
    evening_ms = found.due_ms // DAY_MS * DAY_MS + DAY_MS - 1
    assert planned(evening_ms) == found.offsets
    assert found.words(now_ms) == f"on {day_words(found.due_ms)}: 60 offsets, 200 B"
    assert next_deletions(store.image, now_ms) == [found]


def test_what_is_due_already_goes_with_the_next_run(store):
    topic = store.topic("t", retention_ms=str(DAY_MS))
    store.fill(topic, [9 * DAY_MS, 0])
    found = next_deletion(store.image, topic, store.clock.now_ms())
    assert found.due_ms == store.clock.now_ms()
    assert found.words(store.clock.now_ms()) == "with its next run: 30 offsets, 100 B"


def test_a_topic_without_a_day_says_why(store):
    now_ms = store.clock.now_ms()
    kept = store.topic("kept", cleanup_policy="compact")
    store.fill(kept, [9 * DAY_MS, 0])
    sized = store.topic("sized", retention_ms="-1", retention_bytes=str(MIB))
    store.fill(sized, [9 * DAY_MS, 0], size_bytes=1_000)
    store.fill(store.topic("late", retention_ms=str(8 * DAY_MS)), [0, 0])
    store.fill(store.topic("soon", retention_ms=str(DAY_MS)), [0, 0])
    assert next_deletion(store.image, kept, now_ms).words(now_ms) == (
        "nothing by time: cleanup.policy is compact: nothing is deleted by time or size"
    )
    found = next_deletion(store.image, sized, now_ms)
    assert (found.due_ms, found.bytes_until) == (None, MIB - 1_000)
    assert "or once 1023.0 KiB more are in one of its partitions" in found.words(now_ms)
    empty = store.topic("empty", retention_ms=str(DAY_MS))
    assert next_deletion(store.image, empty, now_ms).why_none == "it has no records in objects"
    assert [each.topic for each in next_deletions(store.image, now_ms)] == ["soon", "late"]
    assert [each.topic for each in next_deletions(store.image, now_ms, "late".__eq__)] == ["late"]


def test_what_a_group_has_not_read_has_no_day(store):
    topic = store.topic(
        "t", retention_ms=str(DAY_MS), siltstone_retention_ack="true", siltstone_retention_groups="slow"
    )
    store.fill(topic, [HOUR_MS, 0])
    found = next_deletion(store.image, topic, store.clock.now_ms())
    assert found.due_ms is None and found.why_none
    assert next_deletions(store.image, store.clock.now_ms()) == []


def test_a_time_that_no_calendar_has_is_no_failure(store):
    topic = store.topic("t", retention_ms=str(2**62))
    store.fill(topic, [HOUR_MS, 0])
    found = next_deletion(store.image, topic, store.clock.now_ms())
    assert found.due_ms is not None and found.words(0) == f"on {day_words(found.due_ms)}: 60 offsets, 200 B"
    assert day_words(store.clock.now_ms()) == time_words(store.clock.now_ms())[:10]
