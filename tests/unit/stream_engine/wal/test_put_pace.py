"""The pace of the puts of a log in a bucket, and its ceiling in any time whatever asks."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.stream_engine.wal.put_pace import AHEAD_MS, PutPace
from support.values.examples import examples

PER_HOUR, INTERVAL_MS = 72_000, 50


def puts_at(pace: PutPace, wanted_ms: list[float], *, is_under_way: bool) -> list[float]:
    """Plays a bulk for each time at which one is wanted: it is put when it is due, and not before the one before it."""
    made: list[float] = []
    for at_ms in wanted_ms:
        made.append(max(at_ms, pace.due_ms(is_under_way=is_under_way), *made[-1:]))
        pace.put(made[-1])
    return made


def test_few_appends_are_put_when_they_come() -> None:
    wanted = [100.0 * number for number in range(1000)]
    assert puts_at(PutPace(PER_HOUR), wanted, is_under_way=False) == wanted


def test_many_are_put_ahead_for_a_second_and_then_at_the_interval() -> None:
    made = puts_at(PutPace(PER_HOUR), [0.0] * 30, is_under_way=False)
    assert made[:21] == [0.0] * 21
    assert made[21:] == [INTERVAL_MS * number for number in range(1, 10)]


def test_beside_a_put_under_way_an_interval_passes_though_nothing_was_put_for_an_hour() -> None:
    made = puts_at(PutPace(PER_HOUR), [3_600_000.0] * 4, is_under_way=True)
    assert [after - before for before, after in pairwise(made)] == [INTERVAL_MS] * 3


def test_full_bulks_exceed_the_ceiling_and_hold_up_what_follows_by_an_interval() -> None:
    pace = PutPace(PER_HOUR)
    for _ in range(1_000):
        pace.put(7.0)
    assert pace.due_ms(is_under_way=False) == 7.0 + INTERVAL_MS


@settings(max_examples=examples(300))
@given(
    st.integers(1, 10_000_000),
    st.lists(st.floats(0, 5_000), min_size=1, max_size=60),
    st.booleans(),
)
def test_in_no_time_more_puts_than_the_ceiling_and_a_second_ahead(
    per_hour_max: int, gaps_ms: list[float], is_under_way: bool
) -> None:
    wanted, now_ms = [], 0.0
    for gap_ms in gaps_ms:
        now_ms += gap_ms
        wanted.append(now_ms)
    made = puts_at(PutPace(per_hour_max), wanted, is_under_way=is_under_way)
    interval_ms = 3_600_000 / per_hour_max
    for first in range(len(made)):
        for last in range(first, len(made)):
            allowed = (made[last] - made[first] + AHEAD_MS) / interval_ms + 1
            assert last - first + 1 <= allowed + 1e-6
