"""What a console has started and continues without its page: a run of maintenance, moves of a balance, a replay.

One runs at a time, in a thread of its own. Pages show the newest one: how far it is, or how it ended.
"""

import logging
from collections.abc import Callable, Sequence

import msgspec

from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Kind, Outcome, Scope
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.watch import StepProgress
from siltstone.foundation.quantity_words import counted
from siltstone.model.console_limits import CONSOLE_CLOSE_SECONDS_MAX
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.tasks import TaskGroup

log = logging.getLogger(__name__)

UNITS_SHOWN_MAX = 20
DETAIL_ROWS_MAX = 100
"""What a page shows of one run; the list of jobs has the report of each."""

Says = Callable[[str], None]
"""Takes a line about how far the run is."""


class RunOutcome(msgspec.Struct, frozen=True):
    """``text`` says in a line what was done. ``detail``: rows of two texts, such as a reason and what came of it."""

    text: str
    detail: tuple[tuple[str, str], ...] = ()
    has_failed: bool = False


Work = Callable[[Says], RunOutcome]
"""Does the work, in a thread."""

Cancel = Callable[[str], None]
"""Takes the reason. Any thread may call it."""


def _nothing(_: str) -> None:
    pass


class RunsAlready(InvalidRequest):
    """The console does something already, or starts nothing of the kind."""


class RunState(msgspec.Struct, frozen=True):
    """``text``: how far it is, or how it ended."""

    title: str
    began_ms: int
    text: str
    is_running: bool = True
    has_failed: bool = False
    detail: tuple[tuple[str, str], ...] = ()


class ChangeRuns:
    """The runs of one console. ``close_seconds_max``: how long its end waits for the one that is cancelled."""

    def __init__(
        self, now_ms: Callable[[], int], *, close_seconds_max: float = CONSOLE_CLOSE_SECONDS_MAX
    ) -> None:
        self.newest: RunState | None = None
        self._now_ms = now_ms
        self._close_seconds_max = close_seconds_max
        self._calls = ThreadedCalls("console-change", 1)
        self._tasks = TaskGroup("console", lambda _: None)
        self._cancel: Cancel = _nothing

    @property
    def is_busy(self) -> bool:
        return self.newest is not None and self.newest.is_running

    def begin(self, title: str, work: Work, cancel: Cancel = _nothing) -> None:
        """``cancel`` has the work end soon, when the console ends. Raises RunsAlready."""
        if self.newest is not None and self.newest.is_running:
            raise RunsAlready(
                f"this console is busy: {self.newest.title}. Wait until it has ended, or cancel its job"
            )
        self.newest = RunState(title, self._now_ms(), "started")
        self._cancel = cancel
        self._tasks.start("run", self._run(self.newest, work))

    async def _run(self, state: RunState, work: Work) -> None:
        try:
            found = await self._calls.run(work, self.says)
        except SiltstoneError as trouble:
            found = RunOutcome(str(trouble), has_failed=True)
        except Exception:
            log.exception("%s failed", state.title)
            found = RunOutcome("it failed, and the log of the console says why", has_failed=True)
        self.newest = msgspec.structs.replace(
            state, text=found.text, is_running=False, has_failed=found.has_failed, detail=found.detail
        )

    def says(self, text: str) -> None:
        """Takes a line about how far the run is. Called in its thread; a value is exchanged at once."""
        if self.newest is not None and self.newest.is_running:
            self.newest = msgspec.structs.replace(self.newest, text=text)

    def begin_maintenance(
        self, title: str, context: MaintenanceContext, scope: Scope, kinds: Callable[[], Sequence[Kind]]
    ) -> None:
        """Begins a run of kinds in this process. ``kinds`` is called in its thread, since some kinds load large
        libraries. Raises RunsAlready."""
        driver = Driver(
            context, InProcessRunner, scope, Budget(),
            on_step_progress=lambda progress: self.says(step_words(progress)),
        )  # fmt: skip
        self.begin(title, lambda _: outcome_of(list(driver.run(kinds()))), driver.cancel)

    async def ended(self) -> None:
        """Waits until nothing runs."""
        await self._tasks.drain()

    async def close(self) -> None:
        """Cancels what runs, and waits for its end, but not for ever."""
        if self.is_busy:
            self._cancel("the console ends")
        await self._tasks.cancel()
        await self._calls.end_within(self._close_seconds_max)


def refuse_in_a_broker(*, runs_maintenance: bool) -> None:
    """Raises RunsAlready for the console of a broker, whose processor is for its clients."""
    if not runs_maintenance:
        raise RunsAlready(
            "a broker runs no maintenance: use siltstone maintain run, or serve --with-maintenance"
        )


def step_words(progress: StepProgress) -> str:
    """Says how far a step of maintenance is."""
    return f"{progress.step}: {progress.done:,} of {progress.total:,}"


def outcome_of(reports: Sequence[RunReport]) -> RunOutcome:
    """Says how runs of maintenance ended."""
    troubles = [f"{each.kind}: {each.trouble}" for each in reports if each.trouble]
    troubles += [
        f"{each.kind}: another run is under way: try again when it has ended"
        for each in reports
        if each.is_busy
    ]
    units = [unit for each in reports for unit in each.units]
    texts = [*troubles, *(f"{unit.name}: {unit.text}" for unit in units[:UNITS_SHOWN_MAX])]
    if len(units) > UNITS_SHOWN_MAX:
        texts.append(f"and {counted(len(units) - UNITS_SHOWN_MAX, 'more unit')}")
    return RunOutcome(
        "; ".join(texts) or "there was nothing to do",
        tuple((reason, now) for unit in units for reason, now in unit.detail.items())[:DETAIL_ROWS_MAX],
        has_failed=bool(troubles) or any(unit.outcome is Outcome.FAILED for unit in units),
    )
