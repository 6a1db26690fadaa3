import pytest

from siltstone.carrying.pipeline.kind import Scope
from siltstone.foundation.quantity_words import time_words
from siltstone.maintenance.retention.planning import plan_retention
from siltstone.metadata.commands import PutKey, TopicTrims
from siltstone.model.limits import DAY_MS, GIB, HOUR_MS
from siltstone.offline.topic_streams import TOPIC_DEFAULTS_KEY
from support.maintenance.retained_store import RetainedStore


def nobody(stream):
    return None


def planned(store: RetainedStore, scope: Scope = Scope(), bound_of=nobody):  # noqa: B008
    return plan_retention(store.image, scope, store.clock.now_ms(), bound_of)


@pytest.fixture
def store() -> RetainedStore:
    return RetainedStore()


def test_a_unit_is_a_topic_and_says_why(store):
    topic = store.topic("flights", 2, retention_ms=str(7 * DAY_MS))
    store.fill(topic, [9 * DAY_MS, 8 * DAY_MS, DAY_MS], size_bytes=GIB // 2)
    store.fill(topic, [8 * DAY_MS, 0], 1, size_bytes=GIB)
    found = planned(store)
    (unit,) = found.units
    assert (unit.name, unit.topic, unit.bytes_read, unit.bytes_written) == ("flights", "flights", 0, 0)
    assert unit.reason == "3 of 5 segments are older than 7 days, 2.0 GiB"
    retention = found.topics["flights"]
    first, second = (each.data_stream_id for each in topic.partitions)
    assert retention.trims == TopicTrims(topic.topic_id, topic.configs, ((first, 60), (second, 30)))
    assert (retention.rolled, retention.offsets) == ((), 90)


def test_both_limits_in_one_reason(store):
    topic = store.topic("t", retention_ms="1000", retention_bytes="250")
    store.fill(topic, [2_000, 0, 0, 0, 0])
    (unit,) = planned(store).units
    assert unit.reason == "1 of 5 segments is older than 1 second and 1 of 5 segments is beyond 250 B, 200 B"


def test_what_stays_and_why(store):
    store.topic("compacted", cleanup_policy="compact")
    store.topic("for-ever", retention_ms="-1")
    store.topic("kept", cleanup_policy="")
    young = store.topic("young", retention_ms=str(HOUR_MS), retention_bytes=str(GIB))
    store.fill(young, [10, 0])
    found = planned(store)
    assert found.units == ()
    assert {each.name: each.reason for each in found.unplanned} == {
        "compacted": "cleanup.policy is compact: nothing is deleted by time or size",
        "for-ever": "retention.ms and retention.bytes set no limit",
        "kept": "cleanup.policy is empty",
        "young": "no closed segment is older than retention.ms (1 hour) or beyond retention.bytes (1.0 GiB); the first "
        f"one will be at {time_words(store.clock.now_ms() - 10 + HOUR_MS + 1)} UTC",
    }


def test_who_blocks_is_named(store):
    topic = store.topic("t", 3, retention_ms="0")
    for partition in range(3):
        store.fill(topic, [1_000], partition)
    asked = []

    def group(stream):
        asked.append((stream.name, stream.config.retention_ms))
        return (0, "100 bytes wait for group slow") if stream.partition else None

    (unit,) = planned(store, bound_of=group).units
    assert asked == [("t-0", 0), ("t-1", 0), ("t-2", 0)]
    assert unit.detail == {f"t-{n}": "100 bytes wait for group slow" for n in (1, 2)}
    (reason,) = [each.reason for each in planned(store, bound_of=lambda _: (0, "group slow")).unplanned]
    assert reason == "t-0: group slow, and 2 more like it"


def test_topics_that_are_asked_for(store):
    for name in ("a", "b"):
        store.fill(store.topic(name, retention_ms="0"), [5])
    assert [unit.name for unit in planned(store, Scope(topics=frozenset({"b"}))).units] == ["b"]
    assert [unit.name for unit in planned(store).units] == ["a", "b"]


def test_who_frees_most_comes_first(store):
    for name, size_bytes in (("a", 10), ("b", 1_000), ("c", 100)):
        store.fill(store.topic(name, retention_ms="0"), [5], size_bytes=size_bytes)
    assert [unit.name for unit in planned(store).units] == ["b", "c", "a"]


def test_what_a_topic_does_not_say_its_broker_says(store):
    store.fill(store.topic("t"), [DAY_MS])
    assert planned(store).units == ()
    store.metadata.execute(PutKey(TOPIC_DEFAULTS_KEY, b'{"retention.ms": "5400001"}'))
    (unit,) = planned(store).units
    assert unit.reason == "1 of 1 segment is older than 1 hour 30 minutes, 100 B"


def test_a_policy_of_both_is_retained_too(store):
    store.fill(store.topic("t", cleanup_policy="compact,delete", retention_ms="0"), [5])
    assert [unit.name for unit in planned(store).units] == ["t"]


@pytest.mark.parametrize("limit", [{"retention_ms": "0"}, {"retention_ms": "-1", "retention_bytes": "0"}])
def test_a_limit_of_nothing_is_a_limit(store, limit):
    store.fill(store.topic("t", **limit), [1_000])
    (unit,) = planned(store).units
    assert unit.name == "t"


def test_what_is_not_planned_is_in_the_order_of_the_names(store):
    for name in ("c", "a", "b"):
        store.topic(name, retention_ms="-1" if name != "b" else "5")
    assert [each.name for each in planned(store).unplanned] == ["a", "b", "c"]


def test_the_topic_that_frees_most_comes_first(store):
    for name, size_bytes in (("a", 10), ("c", 30), ("b", 30)):
        store.fill(store.topic(name, retention_ms="0"), [5], size_bytes=size_bytes)
    assert [unit.name for unit in planned(store).units] == ["b", "c", "a"]
