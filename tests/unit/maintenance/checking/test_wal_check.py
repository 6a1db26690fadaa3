"""Objects of write-ahead logs in a bucket, as check, repair and sweep see them (W18)."""

from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.findings import FindingKind
from siltstone.maintenance.checking.repair_plan import Action, plan_repair
from siltstone.maintenance.checking.repairing import IN_USE, repair
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import FenceNode, RegisterNode, UnregisterNode
from siltstone.model.limits import DAY_MS
from siltstone.object_formats.wal_object import SEAL_BYTES, wal_object_key
from support.maintenance.maintained_store import MaintainedStore

BULK, SEAL = b"b" * 300, b"s" * SEAL_BYTES


def put(world: MaintainedStore, node: int, epoch: int, seq: int, content: bytes = BULK) -> str:
    key = wal_object_key(node, epoch, seq)
    world.store.put(key, [content])
    return key


def unregistered(world: MaintainedStore, node: int, epochs: int) -> None:
    """Registers the node so often, and unregisters it."""
    for life in range(epochs):
        world.metadata.execute(RegisterNode(node, f"life {life}", "nowhere"))
    world.metadata.execute(FenceNode(node, epochs))
    world.metadata.execute(UnregisterNode(node))


def found(world: MaintainedStore) -> dict[str | None, FindingKind]:
    return {each.key: each.kind for each in check(world.context).findings}


def test_w18_the_log_of_a_registered_node_is_known() -> None:
    world = MaintainedStore()
    for seq in range(4):
        put(world, 0, 1, seq)
    assert check(world.context).findings == ()


def test_w18_seals_are_no_finding_whosever_they_are() -> None:
    world = MaintainedStore()
    unregistered(world, 9, 4)
    put(world, 0, 0, 7, SEAL)
    put(world, 9, 4, 7, SEAL)
    assert check(world.context).findings == ()


def test_w18_what_lies_behind_a_seal_and_bulks_of_unknown_nodes_are_litter_that_repair_deletes() -> None:
    world = MaintainedStore()
    unregistered(world, 9, 3)
    world.metadata.execute(RegisterNode(0, "second", "nowhere"))
    kept = {put(world, 0, 1, 5), put(world, 0, 1, 6, SEAL), put(world, 0, 2, 9), put(world, 9, 3, 2, SEAL)}
    litter = {put(world, 0, 1, 7), put(world, 0, 1, 9), put(world, 9, 3, 0), put(world, 9, 3, 1)}
    assert found(world) == dict.fromkeys(litter, FindingKind.WAL_LITTER)
    assert check(world.context).is_clean, "it harms nobody: a monitor that runs check stays green"
    too_young = plan_repair(check(world.context), (), world.clock.now_ms())
    assert (too_young.repairs, too_young.left) == ((), ())
    world.clock.advance_ms(2 * DAY_MS)
    plan = plan_repair(check(world.context), world.image.objects, world.clock.now_ms())
    assert {each.key for each in plan.repairs} == litter
    assert {each.action for each in plan.repairs} == {Action.DELETE_WAL_OBJECT}
    assert len(repair(world.context, plan).done) == 4
    assert world.keys() == kept
    assert check(world.context).findings == ()


def test_litter_that_is_none_any_more_is_kept() -> None:
    world = MaintainedStore()
    unregistered(world, 9, 1)
    put(world, 9, 1, 0)
    world.clock.advance_ms(2 * DAY_MS)
    plan = plan_repair(check(world.context), (), world.clock.now_ms())
    world.metadata.execute(RegisterNode(9, "back", "nowhere"))
    report = repair(world.context, plan)
    assert [each.why_not for each in report.results] == [IN_USE]
    assert world.keys() == {wal_object_key(9, 1, 0)}


def test_an_object_of_a_node_epoch_that_the_metadata_does_not_know() -> None:
    world = MaintainedStore()
    unregistered(world, 5, 3)
    keys = {put(world, 0, 2, 0), put(world, 5, 4, 0), put(world, 6, 4, 0)}
    assert found(world) == dict.fromkeys(keys, FindingKind.METADATA_OLDER)
    assert not check(world.context).is_clean
    world.clock.advance_ms(2 * DAY_MS)
    assert not plan_repair(check(world.context), world.image.objects, world.clock.now_ms()).repairs


def test_a_sweep_never_touches_a_log() -> None:
    world = MaintainedStore()
    world.destroyed(2)
    keys = {put(world, 0, 1, 0), put(world, 0, 1, 1, SEAL), put(world, 9, 1, 0)}
    for _ in range(3):
        world.clock.advance_ms(3 * DAY_MS)
        sweep(world.context)
    assert world.keys() == keys
