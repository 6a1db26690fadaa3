import signal
import threading
from collections.abc import Iterator

import pytest

from siltstone.spark.starting import interruption_deferred


@pytest.fixture(autouse=True)
def python_s_own_handler() -> Iterator[None]:
    """pyspark leaves its own behind in a process that has run a context."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_takes_effect_at_the_end() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interruption_deferred():
        signal.raise_signal(signal.SIGINT)
        done.append("the rest")
    assert done == ["the rest"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_without_ctrl_c_nothing_happens() -> None:
    with interruption_deferred():
        pass
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_ignores_ctrl_c_goes_on_ignoring_it() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruption_deferred():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_keeps_its_hands_off() -> None:
    handlers = []

    def body() -> None:
        with interruption_deferred():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
