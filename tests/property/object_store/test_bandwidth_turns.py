"""The turns of the limiter are compared with a slow plain model, which steps through every millisecond and keeps only
lists. The promises are tried, too: the limit is kept, higher grades have priority, no request waits for ever, and the
bytes that wait are bounded."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from siltstone.model.limits import MIB
from siltstone.object_store.bandwidth.turns import (
    HELD_GRADES,
    IDLE_SLICES_MAX,
    PASSED_OVER_MAX,
    WAITING_BYTES_MIN,
    BandwidthTurns,
    Grade,
    Ticket,
    TooMuchWaits,
)

RATE = 16_000
"""Bytes a second, so a slice of 1,000 bytes takes 62.5 ms."""
SLICE = 1_000
IDLE_MS = IDLE_SLICES_MAX * SLICE * 1000 / RATE

Ask = tuple[int, Grade, int]
"""A request: at which time, in which grade, how many bytes."""

asks = st.lists(
    st.tuples(st.integers(0, 3_000), st.sampled_from([*Grade]), st.integers(1, 6_000)), max_size=25
)
slices = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([*HELD_GRADES]), st.integers(1, 5)), max_size=30
)


class Model:
    """A model that is as plain as possible: one slice at a time, one millisecond at a time, and every question is
    answered by going through the list of requests that wait."""

    def __init__(self) -> None:
        self.waiting: list[dict] = []
        self.admitted: list[tuple[int, int]] = []
        self.tokens = self.since_slice = 0
        self.passed_over = dict.fromkeys(HELD_GRADES, 0)

    def run(self, wanted: list[Ask], until_ms: int) -> list[tuple[int, int]]:
        """(millisecond, number of the ask) in the order of admission."""
        for now in range(until_ms):
            if now:
                self.tokens = min(self.tokens + RATE, RATE * 1000)
                self.since_slice += 1
            for number, (at, grade, size) in enumerate(wanted):
                if at == now:
                    self.ask(now, number, grade, size)
            while self.waiting and (self.tokens >= 0 or self.since_slice >= IDLE_MS):
                self.give(now)
        return self.admitted

    def ask(self, now: int, number: int, grade: Grade, size: int) -> None:
        if grade is Grade.UPLOAD:
            self.tokens = max(self.tokens - size * 1000, -RATE * 1000)
            self.admitted.append((now, number))
        else:
            self.waiting.append({"number": number, "grade": grade, "left": size})

    def give(self, now: int) -> None:
        here = sorted({each["grade"] for each in self.waiting})
        late = [grade for grade in here if self.passed_over[grade] >= PASSED_OVER_MAX]
        grade = max(late, key=lambda each: (self.passed_over[each], -each)) if late else here[0]
        first = next(each for each in self.waiting if each["grade"] == grade)
        size = min(SLICE, first["left"])
        self.tokens, self.since_slice = max(self.tokens - size * 1000, -RATE * 1000), 0
        self.passed_over[grade] = 0
        for other in here:
            self.passed_over[other] += other > grade
        first["left"] -= size
        if not first["left"]:
            self.waiting.remove(first)
            self.admitted.append((now, first["number"]))
        for empty in {*HELD_GRADES} - {each["grade"] for each in self.waiting}:
            self.passed_over[empty] = 0


def model(wanted: list[Ask], until_ms: int) -> list[tuple[int, int]]:
    return Model().run(wanted, until_ms)


def admissions(wanted: list[Ask], until_ms: int) -> list[tuple[int, int]]:
    turns = BandwidthTurns(RATE, 0)
    numbers: dict[Ticket, int] = {}
    found: list[tuple[int, int]] = []
    for now in range(until_ms):
        for number, (at, grade, size) in enumerate(wanted):
            if at == now:
                ticket = turns.ask(grade, size, now)
                numbers[ticket] = number
                if ticket.is_admitted:
                    found.append((now, number))
        found += [(now, numbers[ticket]) for ticket in turns.advance(now)]
    return found


@given(asks)
@settings(deadline=None, max_examples=60)
def test_the_turns_are_those_of_the_plain_model(wanted: list[Ask]) -> None:
    until_ms = 3_000 + 16 * sum(size for _, _, size in wanted) * 1000 // RATE // 4 + 2_000
    until_ms = min(until_ms, 12_000)
    assert admissions(wanted, until_ms) == model(wanted, until_ms)


@given(asks)
@example([
    (0, Grade.UPLOAD, 4_150), (0, Grade.CATCH_UP_READ, 995), (0, Grade.UPLOAD, 121), (267, Grade.TAIL_READ, 1),
    (268, Grade.UPLOAD, 23),
])  # fmt: skip
@example(
    [
        (0, Grade.UPLOAD, 6_337),
        (0, Grade.URGENT, 867),
        (397, Grade.CATCH_UP_READ, 1),
        (398, Grade.TAIL_READ, 165),
    ]
)
@settings(deadline=None, max_examples=60)
def test_looking_only_when_the_next_slice_is_due_changes_nothing(wanted: list[Ask]) -> None:
    """A thread sleeps for ``next_ms``. A slice that is due between two milliseconds of the model may go to another
    grade, and then each other grade may be given one before this one: times differ by a slice of each at most, by the
    uploads that come meanwhile, and by two milliseconds."""
    until_ms, others = 12_000, len(HELD_GRADES) - 1
    turns = BandwidthTurns(RATE, 0)
    numbers: dict[Ticket, int] = {}
    found: list[tuple[float, int]] = []
    coming = sorted(range(len(wanted)), key=lambda number: wanted[number][0])
    now = 0.0
    while now < until_ms:
        while coming and wanted[coming[0]][0] <= now:
            number = coming.pop(0)
            at, grade, size = wanted[number]
            ticket = turns.ask(grade, size, now)
            numbers[ticket] = number
            if ticket.is_admitted:
                found.append((now, number))
        found += [(now, numbers[ticket]) for ticket in turns.advance(now)]
        wait = turns.next_ms(now)
        steps = [] if wait is None else [now + max(wait, 0.001)]
        steps += [wanted[coming[0]][0]] if coming else []
        now = min(steps, default=until_ms)
    expected = model(wanted, until_ms)
    assert {number for _, number in found} >= {number for _, number in expected}
    ended = {number: at for at, number in found}
    for at, number in expected:
        uploaded = sum(
            size for since, grade, size in wanted if grade is Grade.UPLOAD and at <= since <= ended[number]
        )
        assert ended[number] <= at + (others * SLICE + uploaded) * 1000 / RATE + 2


@given(slices)
@settings(deadline=None, max_examples=100)
def test_the_limit_is_kept(wanted: list[tuple[int, Grade, int]]) -> None:
    """In any time, at most the limit, the burst of a second and one slice pass."""
    turns, given_bytes = BandwidthTurns(RATE, 0), 0
    tickets = []
    for now in range(4_000):
        for at, grade, count in wanted:
            if at * 50 == now:
                tickets.append((turns.ask(grade, count * SLICE, now), count * SLICE))
        turns.advance(now)
        given_bytes = sum(size - ticket.bytes_left for ticket, size in tickets)
        assert given_bytes <= RATE * now / 1000 + SLICE
    assert turns.waiting_bytes(Grade.MAINTENANCE) >= 0


@pytest.mark.parametrize("grade", HELD_GRADES)
def test_each_grade_gets_its_sixteenth_beside_all_others(grade: Grade) -> None:
    """All grades ask all the time for more than the limit."""
    turns = BandwidthTurns(RATE, 0)
    tickets = {each: turns.ask(each, 10 * MIB, 0) for each in HELD_GRADES}
    for now in range(0, 64_000, 5):
        turns.advance(now)
    got = 10 * MIB - tickets[grade].bytes_left
    assert got >= 64 * RATE / (PASSED_OVER_MAX + len(HELD_GRADES)) - 2 * SLICE
    if grade is HELD_GRADES[0]:
        assert got >= 64 * RATE * 0.7, "the highest grade still has most"


@pytest.mark.parametrize("load", [1, 2, 10])
def test_uploads_that_use_up_the_limit_leave_a_sixteenth_to_what_is_held(load: int) -> None:
    turns = BandwidthTurns(RATE, 0)
    ticket = turns.ask(Grade.MAINTENANCE, 10 * MIB, 0)
    for now in range(0, 64_000, 10):
        turns.passed(load * RATE // 100, now)
        turns.advance(now)
    got = 10 * MIB - ticket.bytes_left
    assert 64 * RATE / IDLE_SLICES_MAX - 2 * SLICE <= got <= 64 * RATE / 4


def test_uploads_are_never_held() -> None:
    turns = BandwidthTurns(RATE, 0)
    turns.ask(Grade.CATCH_UP_READ, 10 * MIB, 0)
    for now in range(100):
        assert turns.ask(Grade.UPLOAD, 10 * MIB, now).is_admitted


def test_what_waits_is_bounded_in_bytes() -> None:
    turns = BandwidthTurns(RATE, 0)
    asked = 0
    with pytest.raises(TooMuchWaits) as refusal:
        while True:
            turns.ask(Grade.CATCH_UP_READ, 1 * MIB, 0)
            asked += MIB
    assert asked == WAITING_BYTES_MIN == refusal.value.waiting_bytes
    fast = BandwidthTurns(16 * MIB, 0)
    for _ in range(480):
        fast.ask(Grade.CATCH_UP_READ, 1 * MIB, 0)
    with pytest.raises(TooMuchWaits):
        fast.ask(Grade.CATCH_UP_READ, 1 * MIB, 0)


def test_a_request_larger_than_the_bound_passes_when_nothing_waits() -> None:
    turns = BandwidthTurns(RATE, 0)
    turns.ask(Grade.TAIL_READ, 2 * WAITING_BYTES_MIN, 0)


@given(asks, st.lists(st.integers(0, 24), max_size=10))
@settings(deadline=None, max_examples=60)
def test_requests_that_give_up_leave_nothing_behind(wanted: list[Ask], gives_up: list[int]) -> None:
    turns = BandwidthTurns(RATE, 0)
    tickets = [turns.ask(grade, size, 0) for _, grade, size in wanted]
    for at in range(100):
        turns.advance(at)
        if at < len(gives_up) and gives_up[at] < len(tickets):
            turns.withdraw(tickets[gives_up[at]])
    for ticket in tickets:
        turns.withdraw(ticket)
    assert turns.next_ms(100) is None
    assert all(turns.waiting_bytes(grade) == 0 for grade in HELD_GRADES)
    later = turns.ask(Grade.MAINTENANCE, SLICE, 5_000)
    assert turns.advance(5_000) == [later], "and is not passed over for what has gone"
