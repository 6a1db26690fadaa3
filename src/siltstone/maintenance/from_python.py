"""``siltstone.maintenance.plan(store)``: maintenance for notebooks and programs.

``MaintainedStore`` is a protocol, because the store that ``siltstone.open_store`` returns lives on a higher floor.
"""

from collections.abc import Collection
from os import PathLike
from typing import Any, Protocol

import msgspec

from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope, topics_named
from siltstone.carrying.pipeline.running import RunReport
from siltstone.foundation.quantity_words import counted
from siltstone.foundation.text_tables import html_of, table_of
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.overview import KindOverview, Overview, overview
from siltstone.model.errors import InvalidRequest
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.settings import KindSettings
from siltstone.offline.tasks.runner import LateRunner, Runner

REPORT_HEADER = ("kind", "unit", "outcome", "what")


class StoreNotOpened(InvalidRequest):
    """A folder was given where an opened store is needed."""


class MaintainedStore(Protocol):
    @property
    def context(self) -> MaintenanceContext: ...
    @property
    def kind_settings(self) -> KindSettings: ...
    def open_runner(self, spark: Any) -> Runner: ...


def plan(
    store: MaintainedStore,
    *,
    kinds: Collection[str] = (),
    topics: Collection[str] | None = None,
    force: bool = False,
) -> "MaintenancePlan":
    """Plans what maintenance would do now, and why. Writes nothing and starts no Spark.

    ``kinds`` and ``topics`` limit the plan to these; ``force`` also plans what would otherwise wait for an interval
    or a threshold. Raises InvalidRequest for an unknown kind or topic, and for a store that is not opened.

    >>> with siltstone.open_store("./siltstone-data") as store:
    ...     plan = siltstone.maintenance.plan(store)
    ...     print(plan)
    ...     plan.run("local[*]")
    """
    if isinstance(store, str | PathLike):
        raise StoreNotOpened(
            f"maintenance is planned on an opened store: with siltstone.open_store({str(store)!r}) as store: ..."
        )
    chosen = chosen_kinds(store.kind_settings, [kinds] if isinstance(kinds, str) else kinds)
    named = None if topics is None else topics_named(store.context.metadata.refresh(), topics)
    scope = Scope(topics=named, is_forced=force)
    return MaintenancePlan(
        store, tuple(kind.name for kind in chosen), scope, overview(store.context, chosen, scope)
    )


class MaintenancePlan:
    """A plan that ``run`` carries out. It prints as a table, in a notebook too; ``kinds`` has the same as values."""

    def __init__(
        self, store: MaintainedStore, names: tuple[str, ...], scope: Scope, planned: Overview
    ) -> None:
        self._store = store
        self._names = names
        self._scope = scope
        self._planned = planned

    @property
    def kinds(self) -> tuple[KindOverview, ...]:
        return self._planned.kinds

    def __len__(self) -> int:
        """Returns the number of units."""
        return self._planned.unit_count

    def __bool__(self) -> bool:
        return len(self) > 0

    def __repr__(self) -> str:
        return repr(self._planned)

    def _repr_html_(self) -> str:
        return self._planned._repr_html_()

    def run(
        self, spark: Any = None, *, max_bytes: int | None = None, max_seconds: float | None = None
    ) -> "MaintenanceReport":
        """Carries the plan out. Each kind is planned again when its turn comes, because the kinds before it change what
        there is to do.

        ``spark`` is a SparkSession, or a master such as ``"local[*]"`` that is started when the first task needs it, or
        None to run tasks in this process. Units that fail are in the report and are set aside. Raises Unavailable when
        the metadata cannot be reached, and InvalidRequest for a master that cannot be used."""
        runner = LateRunner(lambda: self._store.open_runner(spark))
        budget = Budget(bytes_max=max_bytes, seconds_max=max_seconds)
        driver = Driver(self._store.context, runner.start, self._scope, budget)
        try:
            # Why not carry out the plan that was shown: it is for people, and may be an hour old when they have read
            # it. A run plans from the newest image.
            kinds = chosen_kinds(self._store.kind_settings, self._names)
            return MaintenanceReport(tuple(driver.run(kinds)))
        finally:
            runner.close()


class MaintenanceReport(msgspec.Struct, frozen=True):
    """``runs`` are the reports of the runs, in the order in which they were done."""

    runs: tuple[RunReport, ...]

    @property
    def is_well(self) -> bool:
        return all(each.is_well for each in self.runs)

    def __repr__(self) -> str:
        return (
            table_of(REPORT_HEADER, self._rows()) if self._rows() or not self._postponed else self._postponed
        )

    def _repr_html_(self) -> str:
        is_shown = self._rows() or not self._postponed
        return html_of(REPORT_HEADER, self._rows()) if is_shown else f"<p>{self._postponed}</p>"

    @property
    def _postponed(self) -> str:
        """What is said of a report without a row, when there was work that the runs left."""
        count = sum(len(run.postponed) for run in self.runs)
        return (
            f"Nothing was done; {counted(count, 'unit')} postponed: siltstone maintain status"
            if count
            else ""
        )

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for run in self.runs:
            rows += [(run.kind, unit.name, unit.outcome.value, unit.text) for unit in run.units]
            rows += [(run.kind, each.name, "left out", each.reason) for each in run.unusable]
            if run.trouble:
                rows.append((run.kind, "", "cancelled" if run.is_cancelled else "trouble", run.trouble))
        return rows
