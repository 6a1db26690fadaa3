import pytest

from siltstone.carrying.pipeline.schedule import AGAIN_MS_MIN, JITTER, Schedule

MINUTE = 60_000
INTERVALS = {"sweep": MINUTE, "minor-gc": 60 * MINUTE, "tidy": 20 * MINUTE, "major-gc": 1440 * MINUTE}
MIDDLE = 0.5
"""Of the jitter: none."""


def all_ended(now_ms: int) -> Schedule:
    schedule = Schedule(INTERVALS)
    for kind in reversed(INTERVALS):
        schedule = schedule.ended(kind, now_ms, MIDDLE)
    return schedule


def due_kinds(schedule: Schedule, now_ms: int) -> list[str]:
    found: list[str] = []
    while (kind := schedule.due(now_ms, found)) is not None:
        found.append(kind)
    return found


def test_at_first_everything_is_due_in_the_order_that_frees_space_first() -> None:
    assert due_kinds(Schedule(INTERVALS), 0) == list(INTERVALS)


@pytest.mark.parametrize(
    ("minutes", "kinds"),
    [
        (0, []),
        (1, ["sweep"]),
        (20, ["sweep", "tidy"]),
        (60, ["sweep", "minor-gc", "tidy"]),
        (1440, ["sweep", "minor-gc", "tidy", "major-gc"]),
    ],
)
def test_a_kind_is_due_an_interval_after_it_ended(minutes: int, kinds: list[str]) -> None:
    assert due_kinds(all_ended(1_000), 1_000 + minutes * MINUTE) == kinds
    if kinds:
        assert due_kinds(all_ended(1_000), 999 + minutes * MINUTE) != kinds


def test_what_was_missed_is_done_once() -> None:
    late = 100 * MINUTE
    schedule = all_ended(0).ended("sweep", late, MIDDLE)
    assert schedule.due(late) == "minor-gc"
    assert schedule.due_ms("sweep", late) == late + MINUTE


def test_gc7_a_major_collection_puts_the_next_minor_one_off() -> None:
    schedule = all_ended(0).ended("major-gc", 59 * MINUTE, MIDDLE)
    assert "minor-gc" not in due_kinds(schedule, 60 * MINUTE)
    assert "minor-gc" in due_kinds(schedule, 119 * MINUTE)
    assert all_ended(0).ended("minor-gc", 59 * MINUTE, MIDDLE).due_ms("major-gc", 0) == 1440 * MINUTE


def test_gc7_also_when_somebody_else_ran_it() -> None:
    schedule = all_ended(0).seen({"major-gc": 50 * MINUTE}, 60 * MINUTE)
    assert schedule.due_ms("minor-gc", 60 * MINUTE) == 110 * MINUTE
    assert schedule.due_ms("major-gc", 60 * MINUTE) == (1440 + 50) * MINUTE


def test_runs_by_others_count_when_they_are_newer() -> None:
    schedule = Schedule(INTERVALS).seen({"tidy": 5 * MINUTE, "unknown": 3}, 6 * MINUTE)
    assert schedule.due_ms("tidy", 6 * MINUTE) == 25 * MINUTE
    assert schedule.seen({"tidy": 4 * MINUTE}, 6 * MINUTE).due_ms("tidy", 6 * MINUTE) == 25 * MINUTE
    assert "tidy" not in due_kinds(schedule, 6 * MINUTE)


def test_a_kind_with_work_left_is_due_again_after_the_others() -> None:
    schedule = all_ended(0).ended("tidy", 0, MIDDLE, has_remaining=True)
    assert schedule.due(AGAIN_MS_MIN - 1) is None
    assert schedule.due(AGAIN_MS_MIN) == "tidy"
    assert schedule.due(MINUTE) == "sweep"


def test_what_could_not_be_done_is_tried_again_and_never_later_than_usual() -> None:
    assert all_ended(0).postponed("tidy", 0, 2 * MINUTE).due_ms("tidy", 0) == 2 * MINUTE
    assert all_ended(0).postponed("sweep", 0, 2 * MINUTE).due_ms("sweep", 0) == MINUTE


@pytest.mark.parametrize(("chance", "part"), [(0.0, 1 - JITTER), (0.5, 1.0), (0.999999, 1 + JITTER)])
def test_jitter(chance: float, part: float) -> None:
    due_ms = Schedule(INTERVALS).ended("tidy", 0, chance).due_ms("tidy", 0)
    assert due_ms == pytest.approx(20 * MINUTE * part, rel=1e-4)


def test_the_next_due_time_is_the_earliest() -> None:
    assert all_ended(0).next_due_ms(0) == MINUTE
    assert Schedule(INTERVALS).next_due_ms(7) == 7


def test_a_clock_that_was_set_back_does_not_stop_maintenance() -> None:
    schedule = all_ended(1_000_000 * MINUTE)
    assert schedule.due(0) == "sweep"
    assert schedule.ended("sweep", 0, MIDDLE).due_ms("sweep", 0) == MINUTE


def test_runs_that_a_clock_noted_that_was_ahead_do_not_count() -> None:
    schedule = Schedule(INTERVALS).seen({"sweep": 1_000_000 * MINUTE}, 0)
    assert schedule.due(0) == "sweep"
    schedule = schedule.ended("sweep", 0, MIDDLE).seen({"sweep": 1_000_000 * MINUTE}, 1)
    assert schedule.due_ms("sweep", 1) == MINUTE


def test_of_a_minor_and_a_major_collection_the_newer_counts() -> None:
    later, earlier = 50 * MINUTE, 30 * MINUTE
    for ended_ms in ({"minor-gc": later, "major-gc": earlier}, {"major-gc": earlier, "minor-gc": later}):
        assert Schedule(INTERVALS).seen(ended_ms, later).due_ms("minor-gc", later) == 110 * MINUTE


def test_a_run_that_ended_this_moment_counts() -> None:
    assert "tidy" not in due_kinds(Schedule(INTERVALS).seen({"tidy": MINUTE}, MINUTE), MINUTE)


def test_the_own_run_that_is_noted_keeps_its_jitter() -> None:
    ended = Schedule(INTERVALS).ended("tidy", MINUTE, 0.0)
    assert ended.seen({"tidy": MINUTE}, MINUTE) == ended


def test_a_major_collection_with_work_left_puts_the_minor_one_off_for_its_whole_interval() -> None:
    schedule = Schedule(INTERVALS).ended("major-gc", 0, MIDDLE, has_remaining=True)
    assert schedule.due_ms("major-gc", 0) == AGAIN_MS_MIN
    assert schedule.due_ms("minor-gc", 0) == 60 * MINUTE
