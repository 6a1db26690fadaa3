"""Defines tasks and the port to what runs them.

``TaskCodec`` encodes the input and the result of a task, and ``TaskFailure`` names the object that made a task fail.
``Runner`` is the port to what runs tasks: ``InProcessRunner`` here, Spark's runner in ``siltstone.spark``.
``LateRunner`` starts a runner when the first unit needs one, because many runs have no task.
"""

import resource
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from contextvars import copy_context
from itertools import islice
from threading import RLock
from typing import Generic, Protocol, TypeAlias, TypeVar

import msgspec

from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.runtime.tasks import OnProgress

Task = Callable[[bytes], bytes]
"""A module-level function of this package that takes an encoded task input and returns an encoded result. A runner may
call it in another process, more than once, and at the same time as another call with the same input: every call writes
the same bytes to the same places."""

Input = TypeVar("Input")
Result = TypeVar("Result")


class TaskFailure(msgspec.Struct, frozen=True, array_like=True):
    """Says in one line why a task has no result although its runner works. ``object_id`` is the source object that
    caused the failure; None when no single object did."""

    reason: str
    object_id: int | None = None


class TaskCodec(Generic[Input, Result]):
    """Encodes and decodes the task inputs and results of one sort of task, as msgpack."""

    def __init__(self, input_type: type[Input], result_type: type[Result]) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._inputs = msgspec.msgpack.Decoder(input_type)
        self._results = msgspec.msgpack.Decoder(result_type)

    def encode_input(self, given: Input) -> bytes:
        return self._encoder.encode(given)

    def decode_input(self, data: bytes) -> Input:
        return self._inputs.decode(data)

    def encode_result(self, result: Result) -> bytes:
        return self._encoder.encode(result)

    def decode_result(self, data: bytes) -> Result:
        return self._results.decode(data)


def failure_in_one_line(failure: BaseException) -> str:
    """Returns the class of an exception and its text, for a terminal and a log."""
    return f"{type(failure).__name__}: {' '.join(str(failure).split())}"


def peak_memory_bytes() -> int:
    """Returns the largest resident size of this process so far (``getrusage`` counts kibibytes on Linux, bytes on
    macOS)."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class RunFailed(Unavailable):
    """A task failed, and so did all its retries; the text has the cause in one line. Outputs of other tasks may or may
    not exist, so the driver plans again or gives up."""


TaskEnd: TypeAlias = tuple[int, bytes | RunFailed]
"""How a task ended: the number of its input, counted from 0, and its result, or why it failed for good."""


class RunnerUnusable(Unavailable):
    """No task can be run, whatever its input. No unit has caused it, so none is set aside, and the run ends. The text
    says what to do."""


class RunnerNotStarted(RunnerUnusable):
    """No runner could be started."""


class RunnerLost(RunnerUnusable):
    """The processes that ran tasks have died, or were stopped; the next run starts others."""


class WorkersUnfit(RunnerUnusable):
    """The workers of a cluster cannot run tasks: another Python than the driver's, or a package that they lack."""


LabelOf = Callable[[int], str]
"""Returns the text that people see of a task, by the number of its input: kind, unit and job, such as ``so-compaction
t-0, job 7``."""


class Runner(Protocol):
    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None, label: str = ""
    ) -> list[bytes]:
        """Runs the task once for each input, and returns the results in the order of the inputs. ``on_progress`` is
        called with (tasks done, tasks in all). ``label`` is for the pages of a runner that has pages. Raises RunFailed
        when a task failed for good (the other tasks may have run or not), and RunnerUnusable."""
        ...

    def run_each(
        self,
        task: Task,
        inputs: Iterable[bytes],
        on_waiting: Callable[[], None] | None = None,
        label_of: LabelOf | None = None,
    ) -> Generator[TaskEnd, None, None]:
        """Runs the task once for each input, and yields how each task ended as soon as it has ended, in any order. An
        input is taken when its task can begin, or soon can. ``on_waiting`` is called now and then while tasks run, if
        the runner waits for them in the calling thread. What ``inputs`` or ``on_waiting`` raises ends the run and is
        raised, as is RunnerUnusable; it ends as well when the generator is closed. ``label_of`` is called when a task
        begins, after its input was taken."""
        ...

    @property
    def slots(self) -> int:
        """How many tasks run at a time."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the processes that would run tasks have died, so that another runner has to be started."""
        ...

    def close(self) -> None: ...


class LateRunner:
    """Opens a runner at the first call of ``start``, and keeps it. A runner that ``is_lost`` is closed and replaced
    by a new one."""

    def __init__(self, open_runner: Callable[[], Runner]) -> None:
        self._open = open_runner
        self._starting = RLock()
        self._runner: Runner | None = None

    def start(self) -> Runner:
        """Returns the runner, opened now when there is none. Raises RunnerNotStarted."""
        with self._starting:
            if self._runner is not None and self._runner.is_lost:
                self.close()
            # Why not at the beginning of the run: a Spark takes seconds to start, and most runs find nothing to do.
            if self._runner is None:
                self._runner = self._opened()
            return self._runner

    def _opened(self) -> Runner:
        try:
            return self._open()
        except RunnerUnusable:
            raise
        except SiltstoneError as failure:
            raise RunnerNotStarted(str(failure)) from failure

    def close(self) -> None:
        with self._starting:
            runner, self._runner = self._runner, None
            if runner is not None:
                runner.close()


class InProcessRunner:
    """Runs tasks in this process: for tests, small installations and machines without Spark.

    With ``threads_max`` 1 tasks run one after another in the calling thread. At most ``threads_max`` tasks are in
    memory at a time. A task is tried once, because the object stores retry requests by themselves.
    """

    def __init__(self, threads_max: int = 1) -> None:
        if threads_max < 1:
            raise ValueError(f"threads_max is {threads_max}; it must be at least 1")
        self._threads_max = threads_max

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None, label: str = ""
    ) -> list[bytes]:
        if self._threads_max == 1:
            return self._run_inline(task, inputs, on_progress)
        return self._run_in_threads(task, inputs, on_progress)

    def run_each(
        self,
        task: Task,
        inputs: Iterable[bytes],
        on_waiting: Callable[[], None] | None = None,
        label_of: LabelOf | None = None,
    ) -> Generator[TaskEnd, None, None]:
        if self._threads_max == 1:
            for at, given in enumerate(inputs):
                yield at, _ended(task, given)
            return
        numbered = enumerate(inputs)
        running: dict[Future[bytes | RunFailed], int] = {}
        pool = ThreadPoolExecutor(self._threads_max, thread_name_prefix="maintenance")
        try:
            while True:
                for at, given in islice(numbered, self._threads_max - len(running)):
                    running[pool.submit(copy_context().run, _ended, task, given)] = at
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(future), future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    @property
    def slots(self) -> int:
        return self._threads_max

    @property
    def is_lost(self) -> bool:
        return False

    def close(self) -> None:
        return None

    def _run_inline(self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None) -> list[bytes]:
        results: list[bytes] = []
        for given in inputs:
            results.append(_attempt(task, given))
            if on_progress is not None:
                on_progress(len(results), len(inputs))
        return results

    def _run_in_threads(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None
    ) -> list[bytes]:
        """Runs the tasks in threads. After the first failure no further task is started."""
        pool = ThreadPoolExecutor(self._threads_max, thread_name_prefix="maintenance")
        try:
            futures = [
                pool.submit(copy_context().run, _attempt_at, task, inputs, at) for at in range(len(inputs))
            ]
            for done, future in enumerate(as_completed(futures), start=1):
                future.result()
                if on_progress is not None:
                    on_progress(done, len(inputs))
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _attempt_at(task: Task, inputs: Sequence[bytes], at: int) -> bytes:
    """Runs one task. Its input is taken out of the sequence only now, since a large plan encodes its task inputs one by
    one to save memory."""
    return _attempt(task, inputs[at])


def _ended(task: Task, given: bytes) -> bytes | RunFailed:
    try:
        return _attempt(task, given)
    except RunFailed as failure:
        return failure


def _attempt(task: Task, given: bytes) -> bytes:
    try:
        return task(given)
    except Exception as failure:
        raise RunFailed(failure_in_one_line(failure)) from failure
