"""GC16: a limit of the bytes that are copied each second, held inside tasks."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from siltstone.carrying.pipeline.watch import Cancelled, Watch
from siltstone.model.limits import KIB, MIB
from siltstone.object_store.bandwidth.limiter import STEP_MS
from siltstone.object_store.bandwidth.passage import Piece
from siltstone.object_store.bandwidth.turns import BandwidthSettings, Grade
from siltstone.object_store.opening import open_store
from siltstone.offline.tasks.pacing import (
    RUNS_KEPT_MAX,
    WRITES_TIMES,
    PacedRunner,
    RunningPace,
    TaskPace,
    _Limiters,
    _limiters_of,
    running_pace,
)
from siltstone.offline.tasks.runner import InProcessRunner, RunFailed, Runner
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.runtime.clock import ManualClock


def nothing() -> None:
    return None


class Copying:
    """A bucket with an object of 1 MiB, tasks that read it, and a runner at a rate."""

    def __init__(self, folder: Path, per_second: int, runner: Runner | None = None, check=nothing, units=1):
        self.url = folder.as_uri()
        open_store(self.url).put("a", [bytes(MIB)])
        self.clock = ManualClock()
        self.held_ms: list[float] = []
        self.runner = PacedRunner(
            runner or InProcessRunner(), TaskPace(per_second), units=units, clock=self.clock, check=check,
            on_held=self.held_ms.append,
        )  # fmt: skip
        self.began_ms = self.clock.monotonic_ms()

    @property
    def took_ms(self) -> float:
        return self.clock.monotonic_ms() - self.began_ms

    def task(self, given: bytes) -> bytes:
        return b"%d" % len(store_at(self.url).get_range("a", 0, int(given)))


@pytest.mark.parametrize("size_bytes", [MIB, 100 * KIB, 1000])
def test_gc16_tasks_of_any_size_take_as_long_as_their_bytes_take_at_the_rate(tmp_path, size_bytes) -> None:
    """The rule holds for one large task and for many tasks that have less than a slice."""
    of = Copying(tmp_path, 64 * KIB)
    heard: list[tuple[int, int]] = []
    count = 2 * MIB // size_bytes
    inputs = [b"%d" % size_bytes] * count
    assert of.runner.run(of.task, inputs, lambda *told: heard.append(told)) == inputs
    assert of.took_ms == pytest.approx(count * size_bytes / (64 * KIB) * 1000, rel=0.01)
    assert sum(of.held_ms) == pytest.approx(of.took_ms, rel=0.05)
    assert heard == [(done, count) for done in range(1, count + 1)]


def test_threads_of_a_task_share_its_pace(tmp_path) -> None:
    """The waits of several threads add up on a clock of virtual time, so this test shows only that the threads are
    held."""
    of = Copying(tmp_path, 64 * KIB)

    def task(given: bytes) -> bytes:
        store = store_at(of.url)
        with ThreadPoolExecutor(1) as readers:
            readers.submit(store.get_range, "a", 0, 128 * KIB).result()
        return given

    of.runner.run(task, [b""])
    assert of.took_ms == pytest.approx(2000, rel=0.01)


def test_the_rate_is_divided_among_the_tasks_that_run_at_a_time(tmp_path) -> None:
    seen: list[int] = []

    class Four(InProcessRunner):
        @property
        def slots(self) -> int:
            return 4

    def task(given: bytes) -> bytes:
        pace = running_pace()
        assert pace is not None
        seen.append(pace.bytes_per_second)
        return given

    of = Copying(tmp_path, 1000, Four(), units=3)
    of.runner.run(task, [b""] * 10)
    of.runner.run(task, [b""] * 2)
    list(of.runner.run_each(task, iter([b""])))
    assert seen == [250] * 10 + [500] * 2 + [333]
    assert TaskPace(3).shared(10).bytes_per_second == 1, "a rate never becomes none"
    assert TaskPace(0).shared(10).bytes_per_second == 0


def test_inputs_of_run_each_are_taken_one_by_one_and_results_unwrapped(tmp_path) -> None:
    of = Copying(tmp_path, 64 * KIB)
    ends = []
    for at, result in of.runner.run_each(of.task, iter([b"%d" % (64 * KIB)] * 3)):
        ends.append((at, result, round(of.took_ms)))
    assert ends == [(0, b"65536", 1000), (1, b"65536", 2000), (2, b"65536", 3000)]


def test_a_failed_task_of_run_each_stays_a_failure(tmp_path) -> None:
    def task(given: bytes) -> bytes:
        raise ValueError("no")

    of = Copying(tmp_path, 1000)
    ((_, result),) = of.runner.run_each(task, iter([b""]))
    assert isinstance(result, RunFailed)


@pytest.mark.parametrize("threads", [1, 2])
def test_cancelling_takes_effect_inside_a_task(tmp_path, threads: int) -> None:
    clock = ManualClock()
    watch = Watch("major-gc", clock)
    of = Copying(tmp_path, 1, InProcessRunner(threads), watch.check)
    block = of.clock.block_ms

    def blocked(duration_ms: float) -> None:
        block(duration_ms)
        watch.cancel("enough")

    of.clock.block_ms = blocked  # type: ignore[method-assign]
    with pytest.raises(RunFailed, match="enough"):
        of.runner.run(of.task, [b"%d" % MIB])
    assert of.took_ms <= STEP_MS


def test_what_was_cancelled_before_reads_nothing(tmp_path) -> None:
    watch = Watch("major-gc", ManualClock())
    watch.cancel("enough")
    of = Copying(tmp_path, 1000, check=watch.check)
    with pytest.raises(RunFailed, match="enough"):
        of.runner.run(of.task, [b"1"])
    with pytest.raises(Cancelled):
        watch.check()


def test_gc16_what_is_written_into_a_folder_is_spread_over_a_quarter_of_the_time_of_reading(tmp_path) -> None:
    def task(given: bytes) -> bytes:
        store_at(of.url).put("b", [bytes(4 * MIB)])
        return given

    of = Copying(tmp_path, 64 * KIB)
    of.clock.advance_ms(3_600_000)
    of.began_ms = of.clock.monotonic_ms()
    of.runner.run(task, [b""])
    wanted_ms = 4 * MIB / (WRITES_TIMES * 64 * KIB) * 1000
    assert of.took_ms == pytest.approx(wanted_ms, rel=0.3), "a piece goes before, nothing is saved by waiting"


def test_writes_into_another_store_are_counted_by_the_limits_of_the_process_alone() -> None:
    clock = ManualClock()
    began_ms = clock.monotonic_ms()
    running = RunningPace(TaskPace(1), clock, nothing, _Limiters())
    running.passage("s3://x").write(MIB)
    running.end()
    assert clock.monotonic_ms() == began_ms


def test_copies_inside_a_folder_count_and_those_inside_another_store_only_for_collections() -> None:
    of = {(pace, url): _held_by_copy(pace, url) for pace in (False, True) for url in ("file:///x", "s3://x")}
    assert of == {
        (False, "file:///x"): 1000, (False, "s3://x"): 0, (True, "file:///x"): 1000, (True, "s3://x"): 1000,
    }  # fmt: skip


def _held_by_copy(counts_copies: bool, url: str) -> int:
    clock = ManualClock()
    running = RunningPace(TaskPace(1000, Grade.MAINTENANCE, counts_copies), clock, nothing, _Limiters())
    began_ms = clock.monotonic_ms()
    passage = running.passage(url)
    passage.copy(1000)
    if passage.pieces is not None:
        passage.pieces.passes(Piece.COPIED, 1000)
    running.end()
    return round(clock.monotonic_ms() - began_ms)


def test_the_time_in_which_a_task_writes_counts_for_the_next(tmp_path) -> None:
    """Each of ten tasks reads for a second at the rate, and writes for half a second."""
    of = Copying(tmp_path, 64 * KIB)

    def task(given: bytes) -> bytes:
        store_at(of.url).get_range("a", 0, 64 * KIB)
        of.clock.block_ms(500)
        return given

    of.runner.run(task, [b""] * 10)
    assert of.took_ms == pytest.approx(10_000, rel=0.06)
    of.clock.advance_ms(3_600_000)
    began_ms = of.clock.monotonic_ms()
    of.runner.run(task, [b""] * 30)
    took_ms = of.clock.monotonic_ms() - began_ms
    assert took_ms == pytest.approx(20_000, rel=0.06), "what was saved in an hour is ten seconds at most"


def test_runs_of_other_drivers_have_limiters_of_their_own_and_few_are_remembered() -> None:
    first = _limiters_of("a 1")
    assert _limiters_of("a 1") is first
    for number in range(RUNS_KEPT_MAX):
        _limiters_of(f"b {number}")
    assert _limiters_of("a 1") is not first


def test_no_pace_outside_of_a_task_nor_after_it(tmp_path) -> None:
    of = Copying(tmp_path, 1000)
    of.runner.run(lambda given: given, [b""])
    assert running_pace() is None
    seen = []
    thread = Thread(target=lambda: seen.append(running_pace()))
    thread.start()
    thread.join()
    assert seen == [None]


def test_a_pace_without_rate_and_limits_is_none() -> None:
    assert not TaskPace().is_limited
    assert TaskPace(1).is_limited
    assert TaskPace(limits=BandwidthSettings(out_bytes_per_second=1)).is_limited


def test_the_runner_is_the_one_below(tmp_path) -> None:
    of = Copying(tmp_path, 1, InProcessRunner(3))
    assert (of.runner.slots, of.runner.is_lost) == (3, False)
    of.runner.close()
