"""Repairs of whole stores: each looked up once more, and nothing deleted that anybody names."""

import pytest

from siltstone.maintenance.checking.check import check
from siltstone.maintenance.checking.findings import FindingKind
from siltstone.maintenance.checking.repair_plan import Action, Repair, RepairPlan, plan_repair
from siltstone.maintenance.checking.repairing import (
    CHANGED,
    IN_USE,
    NO_LONGER,
    NOT_OURS,
    RepairReport,
    repair,
    unrepaired,
)
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.commands import CommitUpload
from siltstone.metadata.store.port import LogUnavailable
from siltstone.metadata.store_id import put_store_id
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS, GRACE_PERIOD_MS
from siltstone.model.objects import object_key
from siltstone.object_store.bucket_identity import mark
from siltstone.object_store.port import StoreTransient
from siltstone.runtime.randomness import seeded_randomness
from support.engine.batches import batch
from support.engine.replacing import replace_object
from support.maintenance.maintained_store import MaintainedStore

DAY_MS = COMPACTION_TIME_LIMIT_MS


def forgotten(world: MaintainedStore, count: int = 1) -> list[int]:
    """Ids that were given out and are known no more, whose bytes somebody put again: a late task."""
    ids = world.destroyed(count)
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    for object_id in ids:
        world.store.put(object_key(object_id), [b"late"])
    return ids


def small_world() -> MaintainedStore:
    world = MaintainedStore()
    stream = world.new_stream()
    world.append(stream)
    world.append(stream)
    return world


def planned(world: MaintainedStore) -> RepairPlan:
    return plan_repair(check(world.context), world.image.objects, world.clock.now_ms())


def why_not(report: RepairReport) -> list[str]:
    return [each.why_not for each in report.results]


def test_gc11_an_orphan_goes_when_it_is_old_enough() -> None:
    world = small_world()
    before = world.committed_keys()
    (orphan,) = forgotten(world)
    assert repair(world.context, planned(world)).results == ()
    assert world.keys() >= {object_key(orphan)}
    world.clock.advance_ms(DAY_MS + 1)
    heard: list[tuple[int, int]] = []
    report = repair(world.context, planned(world), lambda *told: heard.append(told))
    assert (report.bytes_deleted, heard) == (4, [(1, 1)])
    assert world.keys() == before
    assert check(world.context).is_clean


def test_forsaken_uploads_are_aborted() -> None:
    world = small_world()
    (gone,) = forgotten(world)
    world.lose_key(object_key(gone))
    world.store.start_multipart(object_key(gone))
    under_way = world.store.start_multipart(object_key(world.prepare()))
    world.store.start_multipart("another/program")
    report = repair(world.context, planned(world))
    assert [each.action for each in report.done] == [Action.ABORT_UPLOAD]
    left = {upload.key for upload in world.store.list_multipart()}
    assert left == {under_way.key, "another/program"}


def test_rule_6_whatever_the_plan_says_nothing_known_is_deleted() -> None:
    world = small_world()
    prepared = world.prepare()
    world.put(prepared, [batch(0, 60, 10)])
    (destroyed,) = world.destroyed(1)
    sweep(world.context)
    keys = world.keys()
    summaries = {each.key: each for each in world.store.list()}
    beyond = world.image.next_object_id
    world.store.put(object_key(beyond), [b"?"])
    wrong = [
        Repair(Action.DELETE_OBJECT, 0, object_id, object_key(object_id), *_seen(summaries, object_id))
        for object_id in (0, 1, prepared, destroyed, beyond)
    ]
    astray = Repair(Action.DELETE_OBJECT, 0, 999, object_key(0), *_seen(summaries, 0))
    report = repair(world.context, RepairPlan((*wrong, astray), ()))
    assert why_not(report) == [IN_USE] * 6
    assert world.keys() == {*keys, object_key(beyond)}
    assert len([*unrepaired(report)]) == 6


def _seen(summaries, object_id: int) -> tuple[int, int]:
    found = summaries.get(object_key(object_id))
    return (0, 0) if found is None else (found.size_bytes, found.modified_ms)


def test_what_changed_since_the_listing_is_left() -> None:
    world = small_world()
    first, second = forgotten(world, 2)
    world.clock.advance_ms(DAY_MS + 1)
    plan = planned(world)
    replace_object(world.store, object_key(first), [b"late again"])
    world.lose_key(object_key(second))
    assert sorted(why_not(repair(world.context, plan))) == sorted([CHANGED, NO_LONGER])
    assert world.keys() >= {object_key(first)}


def test_an_upload_that_became_one_under_way_again_is_left() -> None:
    world = small_world()
    prepared = world.prepare()
    world.store.start_multipart(object_key(prepared))
    plan = RepairPlan((Repair(Action.ABORT_UPLOAD, 0, prepared, object_key(prepared)),), ())
    assert why_not(repair(world.context, plan)) == [IN_USE]
    world.metadata.execute(CommitUpload(0, 1, world.put(prepared, [batch(0, 60, 10)])))
    gone = RepairPlan((Repair(Action.ABORT_UPLOAD, 0, 0, object_key(0)),), ())
    assert why_not(repair(world.context, gone)) == [NO_LONGER]


def test_a_bucket_that_does_not_say_whose_it_is() -> None:
    world = small_world()
    forgotten(world)
    world.clock.advance_ms(DAY_MS + 1)
    world.metadata.execute(put_store_id(seeded_randomness(1)))
    plan = planned(world)
    assert why_not(repair(world.context, plan)) == [NOT_OURS]
    mark(world.store, "another")
    (refused,) = why_not(repair(world.context, plan))
    assert "belongs to store another" in refused
    assert check(world.context).findings[0].kind is FindingKind.BUCKET_OF_ANOTHER_STORE
    assert planned(world).repairs == ()


@pytest.mark.parametrize("kept", [0, 1, 2], ids=["empty", "cut-short", "nearly-whole"])
def test_a_truncated_listing_deletes_nothing(kept: int) -> None:
    world = small_world()
    forgotten(world)
    world.clock.advance_ms(DAY_MS + 1)
    committed = world.committed_keys()
    store = world.store
    whole = list(store.list())
    cut = [each for each in whole if each.key not in committed] + [
        each for each in whole if each.key in committed
    ][:kept]
    store.list = lambda *_: iter(sorted(cut))  # type: ignore[method-assign]
    assert len(planned(world).repairs) == (1 if kept == 2 else 0)


def test_a_catalogue_older_than_the_listing_deletes_nothing() -> None:
    """Metadata brought back from before the newest objects: those look like orphans, or like nobody's."""
    world = small_world()
    forgotten(world)
    world.clock.advance_ms(DAY_MS + 1)
    world.store.put(object_key(world.image.next_object_id), [b"newer than the metadata"])
    world.clock.advance_ms(DAY_MS + 1)
    assert planned(world).repairs == ()


def test_trouble_with_a_bucket_is_told_and_with_the_metadata_raised() -> None:
    world = small_world()
    first, second = forgotten(world, 2)
    world.clock.advance_ms(DAY_MS + 1)
    plan = planned(world)

    def failing(name: str, key: str) -> None:
        if (name, key) == ("delete", plan.repairs[0].key):
            raise StoreTransient("busy")

    world.store.before = failing
    assert why_not(repair(world.context, plan)) == ["busy", ""]
    assert len(world.keys() & {object_key(first), object_key(second)}) == 1
    context = world.another_context()

    def unavailable() -> int:
        raise LogUnavailable("gone")

    world.log.head = unavailable  # type: ignore[method-assign]
    world.log.read_after = lambda *_: unavailable()  # type: ignore[method-assign]
    with pytest.raises(LogUnavailable):
        repair(context, plan)


def test_rule_6_a_key_of_another_object_than_the_repair_names_is_left() -> None:
    world = small_world()
    (gone,) = forgotten(world)
    summaries = {each.key: each for each in world.store.list()}
    astray = Repair(Action.DELETE_OBJECT, 0, gone, object_key(0), *_seen(summaries, 0))
    report = repair(world.context, RepairPlan((astray,), ()))
    assert why_not(report) == [IN_USE] and report.bytes_deleted == 0
    assert world.keys() == summaries.keys()
    assert [*unrepaired(report)] == [f"{object_key(0)}: {IN_USE}"]


def test_what_was_written_again_with_the_same_size_is_left() -> None:
    world = small_world()
    (gone,) = forgotten(world)
    world.clock.advance_ms(DAY_MS + 1)
    plan = planned(world)
    replace_object(world.store, object_key(gone), [b"LATE"])
    assert why_not(repair(world.context, plan)) == [CHANGED]


def test_all_uploads_of_a_key_are_aborted_and_said_nothing_of() -> None:
    world = small_world()
    (gone,) = forgotten(world)
    world.lose_key(object_key(gone))
    for _ in range(2):
        world.store.start_multipart(object_key(gone))
    plan = RepairPlan((Repair(Action.ABORT_UPLOAD, 0, gone, object_key(gone)),), ())
    report = repair(world.context, plan)
    assert report.done == plan.repairs and [*unrepaired(report)] == []
    assert [*world.store.list_multipart()] == []
