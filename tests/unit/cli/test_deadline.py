"""The deadline of a process that was asked to stop; the end of the process is recorded instead."""

import fcntl
import os
import resource
import signal
import threading

import pytest

from siltstone.cli import deadline as module
from siltstone.cli.deadline import ONE_SIGNAL_MS_MAX, ProcessDeadline, counted_signals
from siltstone.runtime.clock import ManualClock

SECONDS_MAX = 60


class Ended:
    """Is raised with the exit status that the process would have had."""

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


def test_a_deadline_that_was_closed_keeps_no_file_and_is_not_set_any_more(ended: Ended) -> None:
    def numbers() -> set[str]:
        return set(os.listdir("/proc/self/fd"))

    before = len(numbers())
    deadline = ProcessDeadline(lambda: 1, end_process=ended)
    assert len(numbers()) == before + 2
    deadline.close()
    deadline.close()
    assert len(numbers()) == before
    deadline.set(0, "a handler that runs late")
    assert not deadline.is_set and ended.statuses == []


def test_a_status_is_found_although_the_last_words_hang(
    ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    never = threading.Event()
    monkeypatch.setattr(module.log, "error", lambda *_: never.wait(SECONDS_MAX))
    ProcessDeadline(lambda: 3, end_process=ended, last_words_seconds_max=0.01).set(0, "nobody reads this")
    assert ended.wait() == [3]
    never.set()


def test_signals_that_follow_the_first_one_at_once_are_the_same_one() -> None:
    clock = ManualClock()
    count = counted_signals(clock)
    assert [count(), count()] == [1, 0]
    clock.advance_ms(ONE_SIGNAL_MS_MAX - 1)
    assert count() == 0
    clock.advance_ms(1)
    assert [count(), count()] == [2, 2]


def test_a_signal_sets_the_deadline_although_its_handler_does_not_run(ended: Ended) -> None:
    """The handler does nothing here, as when the main thread is inside a call."""
    deadline = ProcessDeadline(lambda: 1, end_process=ended)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        signal.raise_signal(signal.SIGTERM)
        with deadline.set_by_signals((1, "first"), (0, "second")):
            assert not deadline.is_set
            signal.raise_signal(signal.SIGTERM)
            assert ended.wait() == [1]
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("one_signal_ms_max", [0, 3_600_000])
def test_only_a_second_signal_has_the_shorter_limit(ended: Ended, one_signal_ms_max: int) -> None:
    deadline = ProcessDeadline(lambda: 1, end_process=ended, one_signal_ms_max=one_signal_ms_max)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with deadline.set_by_signals((3_600_000, "first"), (0, "second")):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
            if one_signal_ms_max == 0:
                assert ended.wait() == [1]
    finally:
        signal.signal(signal.SIGTERM, before)
        deadline.close()
    wait_until_watched_no_more()
    assert len(ended.statuses) == (one_signal_ms_max == 0)


def test_it_works_with_more_than_a_thousand_open_files(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2_048), limits[1]))
    pipe = os.pipe

    def high_pipe() -> tuple[int, int]:
        ends = pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 1_500) for end in ends]
        for end in ends:
            os.close(end)
        return high[0], high[1]

    monkeypatch.setattr(module.os, "pipe", high_pipe)
    try:
        deadline = ProcessDeadline(lambda: 4, end_process=ended)
        assert deadline._wake_end >= 1_500
        deadline.set(3_600_000, "late")
        deadline.set(1, "early")
        assert ended.wait() == [4]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
