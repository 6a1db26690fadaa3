"""Metrics of a maintenance service whose kinds do what a test says."""

import pytest

from siltstone.carrying.pipeline.kind import WHOLE, Unplanned
from siltstone.maintenance.service.service import Lane, MaintenanceService
from siltstone.maintenance.service.statistics import Counters
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.server.admin.maintenance_source import MaintenanceSource, ObservedMaintenance
from siltstone.server.settings.admin import AdminPrices
from support.maintenance.compaction_world import CompactionWorld
from support.maintenance.fake_kind import FakeKind
from support.metrics.scraping import collected_of, rows_of

KIND = "sso-compaction"


@pytest.fixture
def world() -> CompactionWorld:
    return CompactionWorld()


class Serving:
    def __init__(self, world: CompactionWorld, kind: FakeKind) -> None:
        self.counters = Counters([kind.name], world.clock)
        self.lane = Lane(
            "copying",
            world.context,
            [kind],
            {kind.name: 60_000},
            InProcessRunner,
            self.counters,
            seconds_max=60,
        )
        self.service = MaintenanceService([self.lane], self.counters)
        self.source = MaintenanceSource(self.service, {kind.name: 60_000})

    def run(self) -> None:
        self.lane.turn(is_everything_due=True)

    def row(self, name: str, *labels: str) -> object:
        return rows_of(collected_of(self.source), name).get((self.lane._schedule and KIND, *labels))


def test_runs_units_and_bytes_are_counted(world: CompactionWorld) -> None:
    serving = Serving(world, FakeKind(KIND, units={"a": lambda _: None, "b": lambda _: "broken"}))
    assert serving.row("maintenance_last_success_seconds") == 0
    serving.run()
    assert serving.row("maintenance_runs") == 1
    assert serving.row("maintenance_units", "done") == serving.row("maintenance_units", "failed") == 1
    assert serving.row("maintenance_set_aside") == 1
    assert serving.row("maintenance_interval_seconds") == 60
    assert serving.row("maintenance_running") == 0
    assert serving.row("maintenance_last_success_seconds") == 0


def test_a_run_without_failures_is_a_success(world: CompactionWorld) -> None:
    serving = Serving(world, FakeKind(KIND))
    serving.run()
    assert serving.row("maintenance_last_success_seconds") == world.clock.now_ms() / 1000


def test_ob10_the_debt_rises_when_units_fail_and_falls_to_the_rest_of_the_plan(
    world: CompactionWorld,
) -> None:
    ends: dict[str, str | None] = {"a": "broken", "b": None}
    kind = FakeKind(KIND, units={name: lambda _, name=name: ends[name] for name in ends})
    serving = Serving(world, kind)
    assert serving.row("compaction_debt_bytes") is None
    serving.run()
    assert serving.row("compaction_debt_bytes") == 100
    ends["b"] = "broken"
    world.clock.advance_ms(60_000)
    serving.run()
    assert serving.row("compaction_debt_bytes") == 200
    kind.unplanned = (Unplanned(WHOLE, "no room"),)
    serving.run()
    assert serving.row("compaction_debt_bytes") == 200, "a kind that could not look knows nothing new"
    kind.unplanned, ends["a"], ends["b"] = (), None, None
    world.clock.advance_ms(10 * 24 * 3_600_000)
    serving.run()
    assert serving.row("compaction_debt_bytes") == 0


def test_a_kind_that_copies_nothing_has_no_debt(world: CompactionWorld) -> None:
    serving = Serving(world, FakeKind("retention"))
    serving.run()
    assert rows_of(collected_of(serving.source), "compaction_debt_bytes") == {}


def test_a_service_is_ready_while_it_reaches_the_metadata_and_is_not_stopping(world: CompactionWorld) -> None:
    serving = Serving(world, FakeKind(KIND))
    observed = ObservedMaintenance(serving.service, (), AdminPrices(), {KIND: 60_000})
    assert (observed.state, observed.reasons) == ("running", [])
    serving.counters.metadata_lost("copying")
    assert observed.reasons == ["the metadata cannot be reached: maintenance waits and tries again"]
    serving.counters.metadata_found("copying")
    serving.service.stop("the test is over")
    assert (observed.state, observed.reasons) == ("draining", ["the process is stopping"])
