"""The engine: it carries out the units of every kind that rewrites objects, in the same steps.

    stand → buckets → make → prepare → begin → tasks → take → complete → copies → commit → report

A kind gives a row of values, ``WorkKind``, and *works*: one for each unit, with what the engine does not know. Until
a work's commit nothing has changed for any reader. A work that fails is abandoned and becomes its report; the others
of its *wave* continue. When the runner itself fails, it does not say which work is to blame, so each is tried alone,
with new object ids, since tasks of the try before may still write under the old ones.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Generic, Protocol, TypeVar

import msgspec

from siltstone.carrying.committing import FAILURES_SHOWN_MAX, Standing, copy_outputs
from siltstone.carrying.outcomes import settled
from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import CompactedObjectsNotFound, Refusal
from siltstone.model.errors import SiltstoneError
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.output_buckets import why_not_writable
from siltstone.offline.tasks.runner import RunFailed, Task, failure_in_one_line

REQUESTS_SIDE_BY_SIDE = 16
"""This many works are started or completed at a time; each is one small request to a bucket."""


class Wanted(Protocol):
    """A unit of the plan, as the kind planned it."""

    @property
    def name(self) -> str: ...


class Work(Protocol):
    """A unit that is being carried out. ``trouble`` ends it without a commit; every method may set it, or raise it
    where it says so."""

    trouble: SiltstoneError | None

    @property
    def name(self) -> str: ...

    @property
    def labels(self) -> Sequence[str]:
        """The names under which people know what it works on: Spark's pages show the first."""
        ...

    @property
    def data_bytes(self) -> int:
        """The bytes that its tasks rewrite."""
        ...

    def begin(self) -> None:
        """Does what comes before the tasks, such as starting an upload. Raises SiltstoneError."""
        ...

    def inputs(self) -> Sequence[bytes]:
        """Returns the inputs of its tasks. They may be encoded when they are read."""
        ...

    def take(self, answers: Sequence[bytes]) -> None:
        """Takes the results of its tasks, in the order of the inputs, and notes their failures."""
        ...

    def complete(self) -> None:
        """Makes the objects whole in their first buckets. Raises SiltstoneError."""
        ...

    @property
    def new_objects(self) -> Mapping[int, int]:
        """Object id → size of each new object that replication wants in further buckets."""
        ...

    def place(self, standing: Mapping[int, Standing]) -> None:
        """Notes in which buckets the new objects are."""
        ...

    def commit(self) -> None:
        """Puts the objects into use. Raises as ``outcomes.settle``."""
        ...

    def done(self) -> UnitReport: ...

    def abandon(self) -> None:
        """Ends uploads that were not completed, so that late attempts of tasks fail. Objects that were put are left to
        the sweep: a task that still runs could put them again after a deletion. Raises SiltstoneError."""
        ...


W = TypeVar("W", bound=Wanted)
K = TypeVar("K", bound=Work)


class WorkKind(msgspec.Struct, Generic[W, K], frozen=True, kw_only=True):
    """What a kind does differently. ``step`` is the name of its tasks' progress. ``stands`` says whether what a unit
    replaces is still there. ``buckets`` returns where the unit writes, and may raise; a unit needs all of them,
    unless ``some_buckets_suffice``. ``make`` reads what the units need, and returns a function that makes the work of
    one, or raises SiltstoneError; ``prepare`` gives the works their object ids. ``overtaken`` is the report's text when
    a unit was changed meanwhile, and ``overtaken_by`` the refusals that say so. ``failed`` makes the reports of a work
    that failed, if they are more than one line about the unit."""

    step: str
    task: Task
    stands: Callable[[MetadataImage, W], bool]
    buckets: Callable[[W], Iterable[int]]
    make: Callable[[MetadataImage, Sequence[W]], Callable[[W], K]]
    prepare: Callable[[Sequence[K]], None]
    some_buckets_suffice: bool = False
    overtaken: str
    overtaken_by: tuple[type[Refusal], ...] = (CompactedObjectsNotFound,)
    failed: Callable[[K], Sequence[UnitReport]] = lambda _: ()


class Engine(Generic[W, K]):
    """Carries out the waves of one attempt."""

    def __init__(self, attempt: Attempt, work_kind: WorkKind[W, K]) -> None:
        self._attempt = attempt
        self._context = attempt.context
        self._watch = attempt.watch
        self._kind = work_kind

    def carry_out(self, wave: Sequence[W]) -> Iterator[UnitReport]:
        """Yields the reports of each unit. Raises Cancelled, JobNotRunning, RunnerUnusable, OutcomeUnknown,
        and Unavailable when the metadata cannot be reached."""
        self._watch.check()
        pairs: list[tuple[W, K]] = []
        for unit, made in self._made(wave):
            if isinstance(made, UnitReport):
                yield made
            else:
                pairs.append((unit, made))
        if not pairs:
            return
        works = [work for _, work in pairs]
        self._kind.prepare(works)
        with _abandoned(works):
            if self._have_run(works):
                yield from self._commit_each(pairs)
                return
        # Why from the beginning, with new object ids: tasks of the failed try may still run, and write under the old
        # ids.
        for unit, _ in pairs:
            yield from self.carry_out([unit])

    def _made(self, wave: Sequence[W]) -> Iterator[tuple[W, K | UnitReport]]:
        """Yields a work for each unit that stands and may write, and the reports of the others."""
        image = self._context.metadata.refresh()
        ready: list[W] = []
        troubles = BucketVerdicts(self._context)
        some_suffice = self._kind.some_buckets_suffice
        for unit in wave:
            buckets = partial(self._kind.buckets, unit)
            if not self._kind.stands(image, unit):
                yield unit, self._overtaken(unit)
            elif trouble := troubles.why_not_into(buckets, some_suffice=some_suffice):
                yield unit, self._failure(unit, trouble)
            else:
                ready.append(unit)
        make = self._kind.make(image, ready)
        for unit in ready:
            try:
                yield unit, make(unit)
            except SiltstoneError as trouble:
                yield unit, self._failure(unit, str(trouble))

    def _have_run(self, works: Sequence[K]) -> bool:
        """Runs the tasks. Returns False if the runner failed, and any of several works may be to blame. Raises
        RunnerUnusable, Cancelled."""
        try:
            self._run(works)
        except RunFailed as failure:
            self._watch.check()  # a failure after a cancellation is not the fault of the objects
            if len(works) > 1:
                return False
            works[0].trouble = failure
        return True

    def _run(self, works: Sequence[K]) -> None:
        _side_by_side(lambda work: work.begin(), works)
        going = [(work, work.inputs()) for work in works if work.trouble is None]
        inputs = going[0][1] if len(going) == 1 else [*chain.from_iterable(given for _, given in going)]
        answers: list[bytes] = []
        if inputs:
            on_progress = self._watch.steps(self._kind.step, sum(work.data_bytes for work in works))
            label = self._attempt.label([name for work in works for name in work.labels])
            answers = self._attempt.start_runner().run(self._kind.task, inputs, on_progress, label)
        first = 0
        for work, given in going:
            work.take(answers[first : first + len(given)])
            first += len(given)
        _side_by_side(lambda work: work.complete(), works)
        self._copy([work for work in works if work.trouble is None])

    def _copy(self, works: Sequence[K]) -> None:
        """Copies the new objects into their further buckets."""
        sizes = {each: size for work in works for each, size in work.new_objects.items()}
        standing = copy_outputs(self._attempt, sizes)
        for work in works:
            own = {each: standing[each] for each in work.new_objects}
            work.place(own)
            if failures := [each.failure for each in own.values() if each.failure]:
                work.trouble = RunFailed("; ".join(failures[:FAILURES_SHOWN_MAX]))

    def _commit_each(self, pairs: Sequence[tuple[W, K]]) -> Iterator[UnitReport]:
        for number, (unit, work) in enumerate(pairs, start=1):
            if work.trouble is not None:
                yield from self._kind.failed(work) or [self._failure(unit, str(work.trouble))]
            else:
                report = settled(work.name, work.commit, self._kind.overtaken, self._kind.overtaken_by)
                yield report or work.done()
            if number < len(pairs):
                self._watch.report("commit", number, len(pairs))

    def _failure(self, unit: W, reason: str) -> UnitReport:
        """Makes the report of a unit that failed; NOT_NEEDED when it was changed meanwhile, since that may be the
        cause."""
        if not self._kind.stands(self._context.metadata.refresh(), unit):
            return self._overtaken(unit)
        return UnitReport(name=unit.name, outcome=Outcome.FAILED, text=reason)

    def _overtaken(self, unit: W) -> UnitReport:
        return UnitReport(name=unit.name, outcome=Outcome.NOT_NEEDED, text=self._kind.overtaken)


class BucketVerdicts:
    """Why nothing may be written into buckets, for instance because one is another store's. Each bucket is asked once,
    since that costs requests and a wave has many units in the same bucket."""

    def __init__(self, context: MaintenanceContext) -> None:
        self._context = context
        self._known: dict[int, str] = {}

    def why_not_into(self, buckets: Callable[[], Iterable[int]], *, some_suffice: bool = False) -> str:
        """Says why a unit must not write into its buckets; empty if it may. ``buckets`` may raise. With
        ``some_suffice`` one bucket that takes writes is enough."""
        try:
            bucket_ids = sorted(set(buckets()))
            asked = [each for each in bucket_ids if each not in self._known]
            found = why_not_writable(self._context, asked)
        except SiltstoneError as trouble:
            return failure_in_one_line(trouble)
        self._known |= {each: found.get(each, "") for each in asked}
        troubles = [self._known[each] for each in bucket_ids if self._known[each]]
        if some_suffice and len(troubles) < len(bucket_ids):
            return ""
        return "; ".join(troubles)


def _side_by_side(step: Callable[[K], None], works: Sequence[K]) -> None:
    """Does a step of all works that have no trouble, and notes the trouble that it raises."""

    def attempt(work: K) -> None:
        try:
            step(work)
        except SiltstoneError as trouble:
            work.trouble = trouble

    going = [work for work in works if work.trouble is None]
    if len(going) == 1:
        attempt(going[0])
        return
    with ThreadPoolExecutor(REQUESTS_SIDE_BY_SIDE, thread_name_prefix="work") as pool:
        list(pool.map(attempt, going))


@contextmanager
def _abandoned(works: Sequence[Work]) -> Iterator[None]:
    """At the end of the ``with`` block, abandons what was not completed."""
    try:
        yield
    finally:
        for work in works:
            with suppress(SiltstoneError):
                work.abandon()
