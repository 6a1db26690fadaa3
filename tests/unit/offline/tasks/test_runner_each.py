"""``run_each``: every result as soon as its task has ended."""

from collections.abc import Iterator
from threading import Event

import pytest

from siltstone.offline.tasks.runner import InProcessRunner, RunFailed


def doubled(given: bytes) -> bytes:
    if given == b"bad":
        raise ValueError("no such input")
    return given * 2


@pytest.mark.parametrize("threads", [1, 4])
def test_a_task_that_fails_costs_the_others_nothing(threads: int) -> None:
    ends = dict(InProcessRunner(threads).run_each(doubled, iter([b"a", b"bad", b"c"])))
    assert (ends[0], ends[2]) == (b"aa", b"cc")
    assert isinstance(ends[1], RunFailed) and str(ends[1]) == "ValueError: no such input"


@pytest.mark.parametrize("threads", [1, 4])
def test_without_inputs_nothing_ends(threads: int) -> None:
    assert list(InProcessRunner(threads).run_each(doubled, [])) == []


def test_an_input_is_taken_when_its_task_begins_and_its_result_is_known_before_the_next() -> None:
    happened: list[str] = []

    def inputs() -> Iterator[bytes]:
        for given in (b"a", b"b"):
            happened.append(f"take {given!r}")
            yield given

    for at, _ in InProcessRunner().run_each(doubled, inputs()):
        happened.append(f"end {at}")
    assert happened == ["take b'a'", "end 0", "take b'b'", "end 1"]


def test_rule_9_no_more_inputs_are_taken_than_there_are_threads() -> None:
    taken: list[int] = []

    def inputs() -> Iterator[bytes]:
        for number in range(20):
            taken.append(number)
            yield b"a"

    ended = 0
    for _ in InProcessRunner(2).run_each(doubled, inputs()):
        assert len(taken) <= ended + 2
        ended += 1
    assert ended == 20


def test_a_slow_task_does_not_hold_up_the_result_of_a_fast_one() -> None:
    gate = Event()

    def task(given: bytes) -> bytes:
        if given == b"slow":
            assert gate.wait(60)
        return given

    ends = InProcessRunner(2).run_each(task, [b"slow", b"fast"])
    assert next(ends) == (1, b"fast")
    gate.set()
    assert list(ends) == [(0, b"slow")]


@pytest.mark.parametrize("threads", [1, 2])
def test_what_the_inputs_raise_ends_the_run(threads: int) -> None:
    def inputs() -> Iterator[bytes]:
        yield b"a"
        raise KeyError("no more")

    with pytest.raises(KeyError):
        list(InProcessRunner(threads).run_each(doubled, inputs()))
