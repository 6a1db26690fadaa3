import signal
import threading

import pytest

from siltstone.cli.consume.held_signals import HeldSignals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_interrupts_at_once_outside(number: int) -> None:
    signals = HeldSignals()
    with signals.installed(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_the_first_signal_waits_for_the_end_of_the_block() -> None:
    signals, done = HeldSignals(), []
    with signals.installed(), pytest.raises(KeyboardInterrupt), signals.held():
        signal.raise_signal(signal.SIGINT)
        done.append("printed and noted")
    assert done


def test_a_second_signal_ends_even_the_block() -> None:
    signals, done = HeldSignals(), []
    with signals.installed(), pytest.raises(KeyboardInterrupt), signals.held():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("not reached")
    assert not done


def test_a_signal_after_the_first_one_was_raised_is_a_second_one() -> None:
    signals = HeldSignals()
    with signals.installed():
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt), signals.held():
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the block continues")


def test_the_handlers_of_before_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with HeldSignals().installed():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_thread_has_no_signals_to_handle() -> None:
    def other() -> None:
        with HeldSignals().installed():
            done.append(True)

    done: list[bool] = []
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert done
