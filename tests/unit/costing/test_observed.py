"""What the log tells is counted: puts, reads of what was replaced, jobs, and bytes that were freed."""

import pytest

from siltstone.costing.observed import IDS_PER_MARK, PART_BYTES, observe
from siltstone.metadata.commands import FinishJob
from siltstone.metadata.entities import JobState
from siltstone.metadata.log_entry import LogEntry
from siltstone.metadata.records import JobFinished, JobStarted, ObjectCommitted, ObjectsDestroyed, Record
from siltstone.model.objects import ObjectKind, ObjectRange
from support.metadata.queried_store import queried_world

TOPICS = {0: "flights", 2: "flights", 4: "planes"}


def observed(*entries: tuple[Record, ...], until_ms: int = 10_000):
    logged = [(number, LogEntry("0" * 32, records)) for number, records in enumerate(entries)]
    return observe(logged, TOPICS.get, until_ms)


def committed(object_id: int, *ranges: tuple[int, int], size_bytes: int = 0) -> ObjectCommitted:
    held = tuple(ObjectRange(stream_id, object_id, 0, 1, bytes_, -1) for stream_id, bytes_ in ranges)
    size_bytes = size_bytes or sum(each.size_bytes for each in held)
    return ObjectCommitted(object_id, ObjectKind.STREAM_SET_OBJECT, size_bytes, 1_000, 1_000, held)


def test_a_put_is_divided_by_bytes() -> None:
    work = observed((committed(1, (0, 30), (4, 10), size_bytes=50),))
    assert work.put_bytes == {"flights": 30, "planes": 10}
    assert work.writes == {"flights": 0.75, "planes": 0.25}
    assert (work.from_ms, work.window_ms, work.reads, work.freed_bytes) == (1_000, 9_000, {}, 0)


@pytest.mark.parametrize(
    ("size_bytes", "requests"), [(1, 1), (PART_BYTES, 1), (PART_BYTES + 1, 4), (3 * PART_BYTES, 5)]
)
def test_a_large_object_is_its_parts_and_two_requests(size_bytes: int, requests: int) -> None:
    assert observed((committed(1, (0, size_bytes)),)).writes == {"flights": requests}


def test_what_is_replaced_was_read_and_what_is_smaller_was_freed() -> None:
    work = observed(
        (committed(1, (0, 100)),),
        (committed(2, (4, 100)),),
        (committed(3, (0, 60), (4, 60)), ObjectsDestroyed((1, 2), 2_000)),
        (ObjectsDestroyed((3,), 3_000),),
    )
    assert work.reads == {"flights": 2, "planes": 2}
    assert (work.merged_objects, work.freed_bytes) == (1, 80 + 120)


def test_an_object_from_before_the_log_is_passed_over() -> None:
    work = observed((ObjectsDestroyed((1,), 2_000),))
    assert (work.freed_bytes, work.reads, work.from_ms) == (0, {}, 2_000)


def test_jobs_count_by_kind_once_they_are_over() -> None:
    work = observed(
        (JobStarted(1, "sweep", "d", "", 1_000, 9),),
        (JobStarted(2, "retention", "d", "", 2_000, 9),),
        (JobFinished(1, JobState.SUCCEEDED, 4_500, ""), JobFinished(7, JobState.FAILED, 9, "")),
    )
    assert work.job_seconds == {"sweep": 3.5}


@pytest.mark.parametrize(("version", "is_whole"), [(1, True), (2, False)])
def test_a_log_is_whole_until_its_first_entry_is_dropped(version: int, is_whole: bool) -> None:
    assert observe([(version, LogEntry("0" * 32, ()))], TOPICS.get, 0).is_whole == is_whole


def test_nothing_is_known_of_an_empty_log() -> None:
    work = observed()
    assert work.is_whole
    assert (work.window_ms, work.writes, work.shared_writes) == (0, {}, 0)


def test_a_whole_store_is_counted() -> None:
    world = queried_world()
    world.do(FinishJob(0, True))
    logged = [(number, LogEntry("0" * 32, records)) for number, records in enumerate(world.log, 1)]
    work = observe(logged, TOPICS.get, world.now_ms)
    assert work.put_bytes == {"flights": 100 + 200 + 50 + 50, "planes": 70}
    assert sum(work.writes.values()) == pytest.approx(4)
    assert work.shared_writes == 2 * 5 / IDS_PER_MARK
    assert work.job_seconds == {"stream-set-compaction": 2.0} and work.reads == {"flights": 2}
