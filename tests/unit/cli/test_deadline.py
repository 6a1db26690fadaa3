"""The deadline of a process that was asked to stop; the end of the process is recorded instead."""

import threading

import pytest

from siltstone.cli import deadline as module
from siltstone.cli.deadline import ProcessDeadline

SECONDS_MAX = 10


class Ended:
    """What the process would have ended with."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self._happened = threading.Event()

    def __call__(self, status: int) -> None:
        self.statuses.append(status)
        self._happened.set()

    def wait(self) -> list[int]:
        assert self._happened.wait(SECONDS_MAX)
        return self.statuses


@pytest.fixture
def ended() -> Ended:
    return Ended()


def wait_until_watched_no_more() -> None:
    for thread in threading.enumerate():
        if thread.name == "deadline":
            thread.join(SECONDS_MAX)
            assert not thread.is_alive()


def test_the_process_ends_with_the_status_of_that_moment_and_says_why(ended: Ended, caplog) -> None:
    statuses = [3]
    deadline = ProcessDeadline(lambda: statuses[0], end_process=ended)
    assert not deadline.is_set
    statuses[0] = 7
    deadline.set(0, "it was time")
    assert ended.wait() == [7] and deadline.is_set
    assert "it was time" in caplog.text


def test_an_earlier_deadline_wins_and_a_later_one_changes_nothing(ended: Ended) -> None:
    deadline = ProcessDeadline(lambda: 1, end_process=ended)
    deadline.set(3_600_000, "late")
    deadline.set(1, "early")
    deadline.set(3_600_000, "late again")
    assert ended.wait() == [1]


def test_a_process_that_has_ended_by_itself_is_not_ended(ended: Ended) -> None:
    deadline = ProcessDeadline(lambda: 1, end_process=ended)
    deadline.set(3_600_000, "late")
    deadline.close()
    wait_until_watched_no_more()
    assert ended.statuses == []


def test_a_status_is_found_although_the_last_words_hang(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    monkeypatch.setattr(module, "LAST_WORDS_SECONDS_MAX", 0.01)
    monkeypatch.setattr(module.log, "error", lambda *_: never.wait(SECONDS_MAX))
    ProcessDeadline(lambda: 3, end_process=ended).set(0, "nobody reads this")
    assert ended.wait() == [3]
    never.set()
