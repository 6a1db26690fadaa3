"""What a broker knows of other processes: nodes, and the last runs of maintenance."""

from siltstone.carrying.pipeline.set_aside import note_run
from siltstone.metadata.commands import ClaimFailover, FenceNode, RegisterNode
from siltstone.metadata.entities import NodeState
from siltstone.offline.kind_rows import KIND_NAMES
from siltstone.server.admin.broker_source import ClusterSource
from support.maintenance.maintained_store import MaintainedStore
from support.metrics.scraping import collected_of, rows_of


def test_the_age_of_the_last_run_of_each_kind_in_any_process() -> None:
    world = MaintainedStore()
    source = ClusterSource(lambda: world.image, world.clock.now_ms)
    collected_of(source)
    world.clock.advance_ms(60_000)
    note_run(world.context, "sweep", "nothing to do", was_idle=True)
    world.clock.advance_ms(30_000)
    ages = rows_of(collected_of(source), "last_maintenance_age_seconds")
    assert ages["sweep",] == 30
    assert ages["retention",] == 90, "since the first scrape"
    assert len(ages) == len(KIND_NAMES)


def counts(**of_state: int) -> dict[tuple[str], int]:
    return {(state.value,): of_state.get(state.name.lower(), 0) for state in NodeState}


def test_nodes_are_counted_by_state() -> None:
    world = MaintainedStore()
    source = ClusterSource(lambda: world.image, world.clock.now_ms)
    assert rows_of(collected_of(source), "nodes") == counts(live=1)
    world.metadata.execute(RegisterNode(1, "second", "nowhere"))
    world.metadata.execute(FenceNode(0, 1))
    assert rows_of(collected_of(source), "nodes") == counts(live=1, fenced=1)
    world.metadata.execute(ClaimFailover(1, 1, 0))
    world.metadata.execute(RegisterNode(0, "second", "nowhere", failover=True))
    assert rows_of(collected_of(source), "nodes") == counts(live=1, failing_over=1)
