"""A kind of maintenance whose units do what a test says."""

from collections.abc import Callable, Iterator, Sequence

from siltstone.carrying.pipeline.kind import (
    Attempt,
    Outcome,
    Plan,
    PlannedUnit,
    Scope,
    UnitReport,
    Unplanned,
)
from siltstone.carrying.pipeline.watch import Watch
from siltstone.offline.context import MaintenanceContext

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
        lease_ms: int | None = 60_000,
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

    def plan(self, context: MaintenanceContext, scope: Scope, watch: Watch) -> Plan:
        self.planned += 1
        self.when_planned()
        units = tuple(
            PlannedUnit(name=name, reason="a test wants it", topic=self.topics.get(name), bytes_read=100)
            for name in self.units
            if scope.includes(self.topics.get(name))
        )
        return Plan(
            kind=self.name,
            units=units,
            unplanned=self.unplanned,
            has_remaining=self.planned < self.rounds,
        )

    def carry_out(self, plan: Plan, names: Sequence[str], attempt: Attempt) -> Iterator[UnitReport]:
        watch = attempt.watch
        for name in names:
            if watch.is_over:
                return
            watch.check()
            failure = self.units[name](watch)
            if failure is None:
                self.done.append(name)
                yield UnitReport(name=name, outcome=Outcome.DONE, text="it was tidied", bytes_read=100)
            else:
                yield UnitReport(name=name, outcome=Outcome.FAILED, text=failure)
