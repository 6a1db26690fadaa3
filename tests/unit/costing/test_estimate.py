"""The estimate adds up: every byte of every copy belongs to one row, and each amount is a price times a count."""

import pytest
from msgspec.structs import replace

from siltstone.costing.estimate import (
    COUNTED_MS_MIN,
    MONTH_MS,
    WINDOW_MS_MIN,
    CostPrices,
    estimate_cost,
    stored_bytes,
    topics_of_streams,
    total_of,
)
from siltstone.metadata.commands import DeleteTopic
from siltstone.metadata.entities import JobState
from siltstone.metadata.log_entry import LogEntry
from siltstone.metadata.records import JobFinished, JobStarted
from siltstone.model.limits import GIB, HOUR_MS
from support.metadata.queried_store import FLIGHTS, queried_world

FREE = CostPrices(0, 0, 0, 0)


def entries_of(world):
    return [(number, LogEntry("0" * 32, records)) for number, records in enumerate(world.log, 1)]


def amounts(found, field: str) -> dict[str | None, float]:
    return {each.topic: getattr(each, field) for each in found.rows if getattr(each, field)}


def test_every_byte_belongs_to_one_topic_or_none() -> None:
    """Object 0 has 170 bytes of ranges in 270 bytes: flights has 100 of the 170."""
    world = queried_world()
    stored = stored_bytes(world.image, topics_of_streams(world.image))
    assert stored == {"flights": 158 + 300 + 150, "planes": 111, None: 150 + 1}
    assert sum(stored.values()) == sum(each.size_bytes for each in world.image.objects.values())


def test_copies_count_and_bytes_of_deleted_topics_have_no_topic() -> None:
    world = queried_world()
    one = world.image.objects[1]
    draft = world.image.objects.draft()
    draft[1] = replace(one, copies=(1, 2))
    image = replace(world.image, objects=draft.frozen())
    assert stored_bytes(image, topics_of_streams(image))["flights"] == 158 + 3 * 300 + 150
    world.do(DeleteTopic(0, 1, FLIGHTS))
    assert "flights" not in stored_bytes(world.image, topics_of_streams(world.image))


def test_storage_is_the_price_of_a_gib() -> None:
    world = queried_world()
    found = estimate_cost(world.image, [], world.now_ms, replace(FREE, storage_per_gib=GIB))
    assert amounts(found, "known") == {"flights": 608, "planes": 111, None: 151}
    assert [each.topic for each in found.rows] == ["flights", None, "planes"]


def test_the_requests_of_a_store_of_minutes_are_not_taken_for_a_month() -> None:
    """Its storage and its brokers are known, a job that has run is not repeated for a month."""
    world, prices = queried_world(), CostPrices(1_000_000, 1_000_000, GIB, 1)
    from_ms = 1_000_000_000
    job = (
        JobStarted(7, "sweep", "d", "", from_ms, 1),
        JobFinished(7, JobState.SUCCEEDED, from_ms + 60_000, ""),
    )
    entries = [*entries_of(world), (99, LogEntry("0" * 32, job))]
    young = estimate_cost(world.image, entries, from_ms + COUNTED_MS_MIN - 1, prices, cores=2)
    assert {each.requests for each in young.rows} == {None} and young.total is total_of(
        young.rows[:1]
    ) is None
    assert young.too_young == "too young to say (counted for 59 min 59 s)"
    assert any("counted for 59 min 59 s, and it takes 1 hour" in each for each in young.assumptions)
    assert sum(each.compute for each in young.rows) == pytest.approx(2 * MONTH_MS / HOUR_MS)
    assert sum(each.storage for each in young.rows) == 870
    old = estimate_cost(world.image, entries, from_ms + COUNTED_MS_MIN, prices, cores=2)
    assert old.total is not None and old.total > sum(each.known for each in young.rows) and not old.too_young
    assert total_of([]) == 0


def test_a_busy_store_whose_log_has_lost_its_beginning_is_not_young() -> None:
    world = queried_world()
    entries = [(number + 7, entry) for number, entry in entries_of(world)]
    for window_ms, is_told in ((WINDOW_MS_MIN - 1, False), (WINDOW_MS_MIN, True)):
        found = estimate_cost(
            world.image, entries, 1_000_000_000 + window_ms, replace(FREE, writes_per_million=1)
        )
        assert (found.total is not None) == is_told


def test_requests_and_jobs_of_the_window_become_those_of_a_month() -> None:
    world = queried_world()
    later = world.now_ms + COUNTED_MS_MIN
    from_ms = 1_000_000_000  # when the topics were created
    entries = [
        *entries_of(world),
        (99, LogEntry("0" * 32, (JobStarted(7, "sweep", "d", "", later, 1),))),
        (100, LogEntry("0" * 32, (JobFinished(7, JobState.SUCCEEDED, later + 3_600_000, ""),))),
    ]
    now_ms = from_ms + MONTH_MS // 10
    found = estimate_cost(world.image, entries, now_ms, replace(FREE, writes_per_million=1_000_000))
    shared = 10 / 32
    flights = 100 / 170 + 3
    assert amounts(found, "requests") == pytest.approx({
        "flights": 10 * (flights + shared * 400 / 470), "planes": 10 * (70 / 170 + shared * 70 / 470),
    })  # fmt: skip
    found = estimate_cost(world.image, entries, now_ms, replace(FREE, reads_per_million=1_000_000))
    assert amounts(found, "requests") == pytest.approx({"flights": 20})
    found = estimate_cost(world.image, entries, now_ms, replace(FREE, core_per_hour=1), cores=2)
    assert sum(amounts(found, "compute").values()) == pytest.approx(2 * MONTH_MS / HOUR_MS + 10)
    assert found.total is not None
    assert amounts(found, "compute")["flights"] == pytest.approx(found.total * 400 / 470)


def test_a_store_without_anything_costs_its_brokers() -> None:
    image = queried_world().images[1]
    found = estimate_cost(image, [], 0, replace(FREE, core_per_hour=1))
    assert amounts(found, "compute") == {None: MONTH_MS / HOUR_MS}


def test_what_maintenance_has_saved_is_said() -> None:
    """The object that compaction replaced had the same 150 bytes; then flights is deleted with its objects."""
    world = queried_world()
    world.do(DeleteTopic(0, 1, FLIGHTS))
    prices = replace(FREE, storage_per_gib=GIB, reads_per_million=1_000_000)
    found = estimate_cost(world.image, entries_of(world), world.now_ms, prices)
    assert (found.saved_storage, found.saved_reads) == (450, 0)
