import pytest

from siltstone.model.errors import InvalidRequest
from siltstone.offline.tasks.runner import InProcessRunner, LateRunner, Runner, RunnerNotStarted


class Closable(InProcessRunner):
    is_lost = False
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_it_is_started_when_it_is_needed_and_once() -> None:
    opened: list[Closable] = []

    def opening() -> Runner:
        opened.append(Closable())
        return opened[-1]

    late = LateRunner(opening)
    late.close()
    assert not opened
    assert late.start() is late.start() is opened[0]
    late.close()
    late.close()
    assert [each.closed for each in opened] == [1]


def test_one_that_is_lost_is_started_anew() -> None:
    opened: list[Closable] = []

    def opening() -> Runner:
        opened.append(Closable())
        return opened[-1]

    late = LateRunner(opening)
    late.start()
    opened[0].is_lost = True
    assert late.start() is opened[1] and opened[0].closed == 1


def test_one_that_does_not_start_is_tried_again() -> None:
    """Whatever is missing, it is no fault of what was to be done: Unavailable, and no InvalidRequest."""

    tries: list[int] = []

    def failing() -> Runner:
        tries.append(1)
        raise InvalidRequest("no Java")

    late = LateRunner(failing)
    for _ in range(2):
        with pytest.raises(RunnerNotStarted, match="no Java"):
            late.start()
    assert len(tries) == 2
