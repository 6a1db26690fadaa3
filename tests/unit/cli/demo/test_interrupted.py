"""Ctrl-C that a client's C code has dropped, or turned into an error of its own, is Ctrl-C all the same."""

import signal
import threading
from contextlib import suppress

import pytest

from siltstone.cli.demo.interrupted import noted_interrupts


def test_a_dropped_one_is_raised_at_the_next_look_and_at_the_end() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), noted_interrupts() as check:
        check()
        with suppress(KeyboardInterrupt):  # as the client does
            signal.raise_signal(signal.SIGINT)
        check()
        pytest.fail("it was not raised again")
    with pytest.raises(KeyboardInterrupt), noted_interrupts(), suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_after_it_is_ctrl_c_and_another_one_is_itself() -> None:
    with pytest.raises(KeyboardInterrupt), noted_interrupts():
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise SystemError("returned NULL without setting an exception")
    with pytest.raises(SystemError), noted_interrupts():
        raise SystemError("another reason")


def test_in_another_thread_nothing_is_noted() -> None:
    seen: list[str] = []

    def body() -> None:
        with noted_interrupts() as check:
            check()
            seen.append("done")

    thread = threading.Thread(target=body)
    thread.start()
    thread.join(60)
    assert seen == ["done"]
