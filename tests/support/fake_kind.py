"""A kind of maintenance whose units do what a test says."""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.pipeline.kind import Outcome, PlannedUnit, StartRunner, UnitReport, Unplanned
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.maintenance.pipeline.watch import Watch

Act = Callable[[Watch], str | None]
"""Does one unit: None when it is done, else the reason of its failure. May raise."""


def nothing(_watch: Watch) -> None:
    return None


class FakeKind:
    """``units``: what each does, by name; ``bytes_read`` of every unit is 100."""

    def __init__(
        self,
        name: str = "tidy",
        units: dict[str, Act] | None = None,
        *,
        topics: dict[str, str] | None = None,
        unplanned: Sequence[Unplanned] = (),
        rounds: int = 1,
        lease_ms: int = 60_000,
    ) -> None:
        self.name = name
        self.lease_ms = lease_ms
        self.units = {"one": nothing} if units is None else units
        self.topics = topics or {}
        self.unplanned = tuple(unplanned)
        self.rounds = rounds
        self.planned = 0
        self.done: list[str] = []
        self.when_planned: Callable[[], None] = lambda: None

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> "FakePlan":
        self.planned += 1
        self.when_planned()
        units = tuple(
            PlannedUnit(name=name, reason="a test wants it", topic=self.topics.get(name), bytes_read=100)
            for name in self.units
            if scope.includes(self.topics.get(name))
        )
        return FakePlan(self, units, self.unplanned, self.planned < self.rounds)


class FakePlan(msgspec.Struct, frozen=True):
    made_by: FakeKind
    units: Sequence[PlannedUnit]
    unplanned: Sequence[Unplanned]
    has_remaining: bool

    @property
    def kind(self) -> str:
        return self.made_by.name

    def carry_out(
        self,
        context: MaintenanceContext,
        start_runner: StartRunner,
        job_id: int,
        names: Sequence[str],
        watch: Watch,
    ) -> Iterator[UnitReport]:
        for name in names:
            if watch.is_over:
                return
            watch.check()
            failure = self.made_by.units[name](watch)
            if failure is None:
                self.made_by.done.append(name)
                yield UnitReport(name=name, outcome=Outcome.DONE, text="it was tidied", bytes_read=100)
            else:
                yield UnitReport(name=name, outcome=Outcome.FAILED, text=failure)
