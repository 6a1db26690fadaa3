"""The order in which requests get slices; tests/property/object_store/test_bandwidth_turns.py has the model."""

import pytest

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import MIB
from siltstone.object_store.bandwidth.turns import (
    HELD_GRADES,
    SLICE_BYTES_MAX,
    BandwidthSettings,
    BandwidthTurns,
    Direction,
    Grade,
)


def admitted_at(turns: BandwidthTurns, ticket, from_ms: int = 0) -> int:
    now = from_ms
    while not ticket.is_admitted:
        turns.advance(now)
        now += 1
    return now - 1


def test_a_small_request_of_a_higher_grade_passes_a_large_one_after_a_slice() -> None:
    turns = BandwidthTurns(16 * MIB, 0)
    large = turns.ask(Grade.MAINTENANCE, 16 * MIB, 0)
    turns.advance(0)
    assert large.bytes_left == 15 * MIB, "a slice was given at once"
    small = turns.ask(Grade.TAIL_READ, MIB, 1)
    assert admitted_at(turns, small, 1) == 63, "when the slice is paid for"
    assert admitted_at(turns, large, 63) in range(1000, 1003)


def test_slices_are_smaller_when_the_limit_is_low() -> None:
    assert BandwidthTurns(160, 0).slice_bytes == 10
    assert BandwidthTurns(1, 0).slice_bytes == 1
    assert BandwidthTurns(10**12, 0).slice_bytes == SLICE_BYTES_MAX


def test_without_a_limit_everything_is_admitted_at_once() -> None:
    turns = BandwidthTurns(0, 0)
    assert all(turns.ask(grade, 10**12, 0).is_admitted for grade in Grade)
    assert turns.try_pass(10**12, 0)
    assert turns.next_ms(0) is None and turns.debt_ms(0) == 0


def test_one_second_at_most_is_caught_up_and_one_owed() -> None:
    turns = BandwidthTurns(1000, 0)
    assert turns.try_pass(1000, 60_000) and turns.debt_ms(60_000) == 0
    turns.passed(10**9, 60_000)
    assert turns.debt_ms(60_000) == 1000


def test_read_ahead_passes_only_what_need_not_wait() -> None:
    turns = BandwidthTurns(1600, 0)
    assert not turns.try_pass(200, 0), "more than a slice, and nothing is saved yet"
    assert turns.try_pass(100, 0)
    assert not turns.try_pass(1, 1)
    waiting = turns.ask(Grade.MAINTENANCE, 1, 500)
    assert not turns.try_pass(1, 500), "somebody waits"
    assert turns.advance(500) == [waiting]
    assert turns.try_pass(1, 500)


def test_a_new_limit_holds_for_what_waits() -> None:
    turns = BandwidthTurns(100, 0)
    waiting = turns.ask(Grade.CATCH_UP_READ, 1000, 0)
    assert turns.change(100_000, 10) == [waiting]
    waiting = turns.ask(Grade.CATCH_UP_READ, 10**6, 10)
    assert turns.change(0, 11) == [waiting], "no limit any more"
    assert turns.change(1000, 12) == []
    assert turns.debt_ms(12) <= 1000


def test_what_was_saved_or_owed_at_one_limit_is_at_most_a_second_of_the_next() -> None:
    turns = BandwidthTurns(10**6, 0)
    turns.passed(10**9, 0)
    turns.change(10, 0)
    assert turns.debt_ms(0) == 1000
    turns = BandwidthTurns(10**6, 0)
    turns.change(10, 60_000)
    assert not turns.try_pass(12, 60_000)
    assert turns.try_pass(10, 60_000)


def test_equals_go_in_order() -> None:
    turns = BandwidthTurns(1600, 0)
    first, second = (turns.ask(Grade.TAIL_READ, 300, 0) for _ in range(2))
    assert [*(ticket for now in range(1000) for ticket in turns.advance(now))] == [first, second]


def test_withdrawing_twice_or_after_the_end_does_nothing() -> None:
    turns = BandwidthTurns(1600, 0)
    ticket = turns.ask(Grade.TAIL_READ, 100, 0)
    turns.advance(0)
    turns.withdraw(ticket)
    other = turns.ask(Grade.TAIL_READ, 100, 0)
    turns.withdraw(other)
    turns.withdraw(other)
    assert turns.next_ms(0) is None


def test_uploads_go_before_all_reads_and_maintenance_comes_last() -> None:
    assert [grade.label for grade in sorted(Grade)] == [
        "upload", "tail-read", "catch-up-read", "urgent", "maintenance",
    ]  # fmt: skip
    assert Grade.UPLOAD not in HELD_GRADES and len(HELD_GRADES) == len(Grade) - 1


def test_a_limit_is_not_negative() -> None:
    assert BandwidthSettings(3, 4).of(Direction.OUT) == 4
    with pytest.raises(InvalidRequest, match=r"bandwidth\.in_bytes_per_second is -1"):
        BandwidthSettings(-1)
