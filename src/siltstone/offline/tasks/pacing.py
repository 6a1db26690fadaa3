"""Runs tasks at a limited rate. The bytes that a task reads and writes pass a limiter of its own, inside the task, so
the rate is kept within a large task as well as between small ones (GC16). ``RunRate`` says how fast a run copies,
``TaskPace`` how fast one of its tasks does.

The driver divides the rate of a run among the tasks that run at a time, and wraps each task input with its share
(``PacedInput``). The task keeps to this share wherever it runs, and returns its result with the time for which it was
held. Without a rate and without limits no input is wrapped.

A byte that is copied counts once, though it is read and written: the read is held by the rate. A write into a folder is
held by WRITES_TIMES the rate, because a task writes at once what it has read in minutes, and every sync of a file on
that disk would wait for all of it. Requests to a folder wait while they are made (``bandwidth.passage``), requests to
another store before they are made. A task finds its pace through ``running_pace``, in its own thread and in
``PacedThreads``. A task that runs in the driver's process uses the driver's clock, and is cancelled within
``limiter.STEP_MS``; on an executor Spark itself ends a cancelled task.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from threading import Lock, get_ident
from typing import ParamSpec, TypeVar, overload

import msgspec

from siltstone.foundation.quantity_words import seconds_words, size_words
from siltstone.object_store.bandwidth.limiter import Check, Limiter, limiter_of_process
from siltstone.object_store.bandwidth.passage import InPieces, Passage, Piece
from siltstone.object_store.bandwidth.turns import BandwidthSettings, Direction, Grade
from siltstone.offline.tasks.runner import LabelOf, RunFailed, Runner, Task, TaskEnd
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.tasks import OnProgress

P = ParamSpec("P")
T = TypeVar("T")


class TaskPace(msgspec.Struct, frozen=True, array_like=True):
    """Says how fast one task may copy. ``bytes_per_second`` is its share of the run's rate; 0: no rate.
    ``counts_copies``: bytes that are copied inside a store count, too. ``limits`` apply to all tasks of the process
    together in which the task runs."""

    bytes_per_second: int = 0
    grade: Grade = Grade.MAINTENANCE
    counts_copies: bool = False
    limits: BandwidthSettings = BandwidthSettings()

    @property
    def is_limited(self) -> bool:
        return bool(self.bytes_per_second or any(map(self.limits.of, Direction)))

    def shared(self, tasks_at_a_time: int) -> "TaskPace":
        """Returns the pace of each of so many tasks that run at the same time. A rate is never divided down to 0, which
        would mean no rate."""
        if not self.bytes_per_second:
            return self
        share = max(1, self.bytes_per_second // max(1, tasks_at_a_time))
        return msgspec.structs.replace(self, bytes_per_second=share)


COUNTS_COPIES = frozenset({"minor-gc", "major-gc"})
"""The kinds whose rate also counts bytes that are copied inside the store, without being read by a task."""


class RunRate(msgspec.Struct, frozen=True, kw_only=True):
    """``bytes_per_second`` 0: no rate. ``spread_ms``: the time over which the bytes are spread; 0: the run is not
    spread, or another rate is lower. ``urgency`` says why the grade is URGENT."""

    bytes_per_second: int = 0
    spread_ms: int = 0
    urgency: str = ""

    @property
    def grade(self) -> Grade:
        return Grade.URGENT if self.urgency else Grade.MAINTENANCE

    @property
    def words(self) -> str:
        """Describes the rate, such as "at 2.1 MiB/s, spread over 19 min"; empty when there is none."""
        rate = f"at {size_words(self.bytes_per_second)}/s" if self.bytes_per_second else ""
        spread = f"spread over {seconds_words(self.spread_ms / 1000)}" if self.spread_ms else ""
        return ", ".join(filter(None, (rate, spread, f"urgent: {self.urgency}" if self.urgency else "")))

    def pace(self, kind: str, limits: BandwidthSettings) -> TaskPace:
        return TaskPace(self.bytes_per_second, self.grade, kind in COUNTS_COPIES, limits)


NO_RATE = RunRate()


class PacedInput(msgspec.Struct, frozen=True, array_like=True):
    """``run`` names the run, since executors may work for several."""

    pace: TaskPace
    run: str
    given: bytes


class PacedResult(msgspec.Struct, frozen=True, array_like=True):
    result: bytes
    held_ms: float


_INPUT = msgspec.msgpack.Decoder(PacedInput)
_RESULT = msgspec.msgpack.Decoder(PacedResult)
_ENCODER = msgspec.msgpack.Encoder()


def _nothing() -> None:
    return None


SAVED_MS_MAX = 10_000
"""While tasks write they read nothing. Afterwards they may read faster until they have caught up with this much
time."""

WRITES_TIMES = 4
"""A task that reads, then writes, takes a quarter longer than its reads alone; the next task catches up."""

WRITES_SAVED_MS_MAX = 100
"""What is not written while a task reads is not saved: writing it at once is what is to be prevented."""

RUNS_KEPT_MAX = 16


class _Limiters:
    """Holds the limiters of one run in this process: two for each thread that runs tasks, since each has a share of the
    rate. Tasks that follow each other in a thread share them, so a run keeps to its rate although its tasks also
    write."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], tuple[Limiter, Limiter]] = {}
        self._lock = Lock()

    def of_this_thread(self, bytes_per_second: int, clock: Clock) -> tuple[Limiter, Limiter]:
        """Returns two limiters: of what is read, and of what is written into folders."""
        with self._lock:
            key = get_ident(), bytes_per_second
            if key not in self._held:
                self._held[key] = (
                    Limiter(BandwidthSettings(bytes_per_second, 0), clock, SAVED_MS_MAX),
                    Limiter(
                        BandwidthSettings(0, WRITES_TIMES * bytes_per_second), clock, WRITES_SAVED_MS_MAX
                    ),
                )
            return self._held[key]


_limiters: OrderedDict[str, _Limiters] = OrderedDict()
_lock = Lock()


def _limiters_of(run: str) -> _Limiters:
    """Returns the limiters of a run whose driver is another process; RUNS_KEPT_MAX runs are remembered."""
    with _lock:
        found = _limiters.pop(run, None) or _Limiters()
        _limiters[run] = found
        while len(_limiters) > RUNS_KEPT_MAX:
            _limiters.popitem(last=False)
        return found


class RunningPace:
    """The pace of a task that runs. Its threads share it."""

    def __init__(self, pace: TaskPace, clock: Clock, check: Check, limiters: _Limiters) -> None:
        self._pace = pace
        self._check = check
        self.bytes_per_second = pace.bytes_per_second
        self._rate, self._writes = limiters.of_this_thread(pace.bytes_per_second, clock)
        self._of_process = limiter_of_process(pace.limits)
        self._lock = Lock()
        self.held_ms = 0.0

    def passage(self, url: str) -> Passage:
        """Returns how requests to the store at the URL pass the limiter. Copies inside a folder count, because they use
        the disk of this machine."""
        if url.startswith("file:"):
            return InPieces(_PacedPieces(self))
        return _Paced(self, counts_copies=self._pace.counts_copies)

    def at_rate(self, size_bytes: int) -> None:
        self._hold(self._rate, Direction.IN, size_bytes)

    def write_spread(self, size_bytes: int) -> None:
        self._hold(self._writes, Direction.OUT, size_bytes)

    def end(self) -> None:
        """Waits until the rate allows the bytes that were read, so that many small tasks in many threads keep to the
        rate as well."""
        self.held_ms += self._rate.pay(Direction.IN, self._check)

    def of_process(self, direction: Direction, size_bytes: int) -> None:
        self._hold(self._of_process, direction, size_bytes)

    def _hold(self, limiter: Limiter, direction: Direction, size_bytes: int) -> None:
        held_ms = limiter.hold(direction, self._pace.grade, size_bytes, self._check)
        with self._lock:
            self.held_ms += held_ms


class _Paced:
    """Implements Passage."""

    pieces = None

    def __init__(self, pace: RunningPace, *, counts_copies: bool) -> None:
        self._pace = pace
        self._counts_copies = counts_copies

    def read(self, size_bytes: int) -> None:
        self._pace.at_rate(size_bytes)
        self._pace.of_process(Direction.IN, size_bytes)

    def write(self, size_bytes: int) -> None:
        self._pace.of_process(Direction.OUT, size_bytes)

    def copy(self, size_bytes: int) -> None:
        if self._counts_copies:
            self._pace.at_rate(size_bytes)


class _PacedPieces:
    """Implements Pieces, of requests to a folder."""

    def __init__(self, pace: RunningPace) -> None:
        self._pace = pace

    def passes(self, what: Piece, size_bytes: int) -> None:
        match what:
            case Piece.READ:
                self._pace.at_rate(size_bytes)
                self._pace.of_process(Direction.IN, size_bytes)
            case Piece.WRITTEN:
                self._pace.write_spread(size_bytes)
                self._pace.of_process(Direction.OUT, size_bytes)
            case Piece.COPIED:
                self._pace.at_rate(size_bytes)


_pace: ContextVar[RunningPace | None] = ContextVar("pace", default=None)
_driver: ContextVar[tuple[Clock, Check, _Limiters] | None] = ContextVar("driver", default=None)
"""The driver's clock, its check and the limiters of its run, for threads of the driver's process."""


def running_pace() -> RunningPace | None:
    """Returns the pace of the task that runs in this thread; None if the task has none, or no task runs here."""
    return _pace.get()


class PacedThreads(ThreadPoolExecutor):
    """A pool of threads of a task, in which the pace of the task applies, too."""

    def submit(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        context = copy_context()
        return super().submit(lambda: context.run(call, *args, **kwargs))


class PacedTask:
    """Runs another task. Its inputs are PacedInput, and its results PacedResult."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.__name__ = getattr(task, "__name__", "task")

    def __call__(self, data: bytes) -> bytes:
        paced = _INPUT.decode(data)
        clock, check, limiters = _driver.get() or (SystemClock(), _nothing, _limiters_of(paced.run))
        running = RunningPace(paced.pace, clock, check, limiters)
        before = _pace.set(running)
        try:
            result = self._task(paced.given)
            running.end()
        finally:
            _pace.reset(before)
        return _ENCODER.encode(PacedResult(result, running.held_ms))


class _PacedInputs(Sequence[bytes]):
    """The wrapped inputs. Each is wrapped when it is taken, since a large plan makes its inputs one by one."""

    def __init__(self, inputs: Sequence[bytes], pace: TaskPace, run: str) -> None:
        self._inputs = inputs
        self._pace = pace
        self._run = run

    def __len__(self) -> int:
        return len(self._inputs)

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        given = self._inputs[at]
        if isinstance(given, bytes):
            return _wrapped(self._pace, self._run, given)
        return [_wrapped(self._pace, self._run, each) for each in given]


def _wrapped(pace: TaskPace, run: str, given: bytes) -> bytes:
    return _ENCODER.encode(PacedInput(pace, run, given))


class PacedRunner:
    """Runs tasks on another runner, at most at the rate of ``pace`` all together. ``units``: the most tasks that are
    passed to ``run_each``. ``check`` raises when the run was cancelled; ``on_held`` is called for each task that has
    ended, with the milliseconds for which the task was held."""

    def __init__(
        self,
        runner: Runner,
        pace: TaskPace,
        *,
        units: int,
        clock: Clock,
        check: Check,
        on_held: Callable[[float], None],
        run: str = "",
    ) -> None:
        """``run``: a name that no other run has which may use the same executors at the same time."""
        self._run = run
        self._limiters = _Limiters()
        self._runner = runner
        self._pace = pace
        self._units = units
        self._clock = clock
        self._check = check
        self._on_held = on_held

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None, label: str = ""
    ) -> list[bytes]:
        pace = self._pace.shared(min(self.slots, len(inputs)))
        with self._driver_announced():
            results = self._runner.run(
                PacedTask(task), _PacedInputs(inputs, pace, self._run), on_progress, label
            )
        return [self._taken(each) for each in results]

    def run_each(
        self,
        task: Task,
        inputs: Iterable[bytes],
        on_waiting: Callable[[], None] | None = None,
        label_of: LabelOf | None = None,
    ) -> Generator[TaskEnd, None, None]:
        pace = self._pace.shared(min(self.slots, self._units))
        wrapped: Iterator[bytes] = (_wrapped(pace, self._run, given) for given in inputs)
        ended = self._runner.run_each(PacedTask(task), wrapped, on_waiting, label_of)
        try:
            while True:
                with self._driver_announced():
                    end = next(ended, None)
                if end is None:
                    return
                at, result = end
                yield at, result if isinstance(result, RunFailed) else self._taken(result)
        finally:
            ended.close()

    @property
    def slots(self) -> int:
        return self._runner.slots

    @property
    def is_lost(self) -> bool:
        return self._runner.is_lost

    def close(self) -> None:
        self._runner.close()

    @contextmanager
    def _driver_announced(self) -> Iterator[None]:
        """Tasks that run in this process meanwhile use the driver's clock and check."""
        before = _driver.set((self._clock, self._check, self._limiters))
        try:
            yield
        finally:
            _driver.reset(before)

    def _taken(self, data: bytes) -> bytes:
        paced = _RESULT.decode(data)
        self._on_held(paced.held_ms)
        return paced.result
