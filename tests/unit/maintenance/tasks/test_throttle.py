"""GC16: a limit for what is copied each second."""

import pytest

from siltstone.maintenance.pipeline.watch import Cancelled, Watch
from siltstone.maintenance.tasks.runner import InProcessRunner
from siltstone.maintenance.tasks.throttle import SLICE_MS, Throttle, ThrottledRunner
from siltstone.model.limits import MIB
from siltstone.runtime.clock import ManualClock


def nothing() -> None:
    return None


def test_gc16_ten_megabytes_a_second_take_a_gigabyte_100_seconds() -> None:
    clock = ManualClock()
    throttle = Throttle(10 * 10**6, clock)
    runner = ThrottledRunner(InProcessRunner(), throttle, lambda given: 50 * 10**6, nothing)
    began_ms = clock.monotonic_ms()
    heard: list[tuple[int, int]] = []
    results = runner.run(
        lambda given: given + b"!", [b"%d" % at for at in range(20)], lambda *told: heard.append(told)
    )
    assert 100_000 <= clock.monotonic_ms() - began_ms < 101_000
    assert results == [b"%d!" % at for at in range(20)], "in their order"
    assert heard == [(done, 20) for done in range(1, 21)]


def test_one_second_at_most_is_caught_up() -> None:
    clock = ManualClock()
    throttle = Throttle(MIB, clock)
    clock.advance_ms(60_000)
    began_ms = clock.monotonic_ms()
    throttle.take(MIB, nothing)
    assert clock.monotonic_ms() == began_ms
    throttle.take(MIB, nothing)
    assert clock.monotonic_ms() - began_ms == 1000


def test_without_a_limit_all_inputs_are_given_at_once() -> None:
    class Counting(InProcessRunner):
        calls = 0

        def run(self, task, inputs, on_progress=None, label=""):
            Counting.calls += 1
            return super().run(task, inputs, on_progress)

    clock = ManualClock()
    began_ms = clock.monotonic_ms()
    runner = ThrottledRunner(Counting(), Throttle(0, clock), len, nothing)
    assert runner.run(bytes, [b"a", b"b"]) == [b"a", b"b"]
    assert (Counting.calls, clock.monotonic_ms()) == (1, began_ms)
    assert not runner.is_lost
    runner.close()


def test_cancelling_does_not_wait_for_tokens() -> None:
    clock = ManualClock()
    throttle = Throttle(1, clock)
    watch = Watch("major-gc", clock)
    began_ms = clock.monotonic_ms()
    block = clock.block_ms

    def blocked(duration_ms: float) -> None:
        block(duration_ms)
        watch.cancel("enough")

    clock.block_ms = blocked  # type: ignore[method-assign]
    runner = ThrottledRunner(InProcessRunner(), throttle, lambda given: 10**9, watch.check)
    with pytest.raises(Cancelled, match="enough"):
        runner.run(bytes, [b"a"])
    assert clock.monotonic_ms() - began_ms <= SLICE_MS


def test_what_was_cancelled_before_copies_nothing() -> None:
    clock = ManualClock()
    watch = Watch("major-gc", clock)
    watch.cancel("enough")
    with pytest.raises(Cancelled, match="enough"):
        Throttle(0, clock).take(1, watch.check)


def test_each_input_of_a_run_is_taken_when_the_throttle_allows_it() -> None:
    clock = ManualClock()
    runner = ThrottledRunner(InProcessRunner(), Throttle(MIB, clock), lambda given: MIB, nothing)
    began_ms = clock.monotonic_ms()
    ended = [clock.monotonic_ms() - began_ms for _ in runner.run_each(bytes, [b"a", b"b", b"c"])]
    assert ended == [1000, 2000, 3000]
