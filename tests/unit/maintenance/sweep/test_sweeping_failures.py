"""The sweep with several buckets, failing stores, metadata out of reach, and when it is killed."""

import logging
from threading import Barrier, Thread

import pytest

from siltstone.maintenance.sweep.sweeping import DENIED_OBJECTS_MAX, SweepReport, sweep
from siltstone.metadata.commands import ForgetObjects
from siltstone.metadata.store.port import LogUnavailable
from siltstone.model.errors import Unavailable
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.model.objects import object_key
from siltstone.object_store.port import StoreDenied, StoreTransient
from siltstone.runtime.randomness import seeded_randomness
from support.engine.faulty_store import BY_CHANCE, Fault, FaultyStore
from support.maintenance.maintained_store import MaintainedStore
from support.maintenance.sweep_tests import destroyed_long_ago, uploads_of
from support.metadata import faulty_log

ALL_FAULTS = tuple(Fault)


def test_each_bucket_is_swept_of_its_own() -> None:
    world = MaintainedStore((0, 3, 7))
    ids = destroyed_long_ago(world, 2, (0, 3, 7))
    report = sweep(world.context)
    assert (report.objects_deleted, report.delete_requests) == (6, 3)
    for bucket_id, store in world.stores.items():
        assert store.details("delete") == [tuple(object_key(each) for each in ids[bucket_id])]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["reachable first", "unreachable first"])
@pytest.mark.parametrize("trouble", [StoreTransient("no route to host"), StoreDenied("no permission")])
def test_an_unreachable_bucket_is_passed_over_and_caught_up_with(
    trouble: Exception, order: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    """Oldest first: when those are the unreachable ones, they must not fill every batch."""
    world = MaintainedStore((0, 1))
    ids = destroyed_long_ago(world, 2_100, order)
    here, there = ids[0], ids[1]
    stay = {object_key(each) for each in there}

    def fail(name: str, key: str) -> None:
        raise trouble

    world.stores[1].before = fail
    with caplog.at_level(logging.WARNING):
        report = sweep(world.context)
    assert report.passed_over == (f"bucket 1: {trouble}",)
    assert "the sweep skips bucket 1" in caplog.text
    assert (report.objects_deleted, report.objects_waiting) == (len(here), 0)
    assert world.keys(0) == set() and world.keys(1) == stay
    assert set(world.image.destroyed) == set(there), "nothing is forgotten that was not deleted"
    world.stores[1].before = lambda name, key: None
    report = sweep(world.context)
    assert (report.objects_deleted, report.passed_over) == (len(there), ())
    assert world.keys(1) == set() and not world.image.objects


def test_a_bucket_passed_over_is_asked_once() -> None:
    world = MaintainedStore((0, 1))
    destroyed_long_ago(world, 2_500, (1,))
    asked_before = len(world.stores[1].calls)

    def fail(name: str, key: str) -> None:
        raise StoreTransient("down")

    world.stores[1].before = fail
    sweep(world.context)
    assert len(world.stores[1].calls) == asked_before + 1


def test_objects_that_nobody_may_delete_keep_no_others() -> None:
    world = MaintainedStore((0, 1))
    ids = destroyed_long_ago(world, 1_500, (0, 1))
    held = {ids[0][0], ids[0][700], ids[0][1_200]}
    world.stores[0].denied_keys = {object_key(each) for each in held}
    report = sweep(world.context)
    assert report.objects_deleted == 3_000 - len(held)
    (reason,) = report.passed_over
    assert reason.startswith("bucket 0: ") and "denied" in reason
    assert set(world.image.destroyed) == held and world.keys() == world.stores[0].denied_keys
    world.stores[0].denied_keys = set()
    assert sweep(world.context).objects_deleted == len(held)


def test_a_bucket_that_denies_everything_is_soon_left_alone() -> None:
    world = MaintainedStore()
    ids = destroyed_long_ago(world, 3_000)[0]
    world.store.denied_keys = {object_key(each) for each in ids}
    asked_before = len(world.store.details("delete"))
    assert sweep(world.context).objects_deleted == 0
    assert len(world.store.details("delete")) - asked_before <= 3 * DENIED_OBJECTS_MAX
    assert set(world.image.destroyed) == set(ids)


def test_a_bucket_that_let_others_go_is_not_given_up_for_its_denials() -> None:
    """More are held than it takes to give up a bucket; all of them in the first batch, behind one that was deleted."""
    world = MaintainedStore()
    ids = destroyed_long_ago(world, 1_500)[0]
    held = set(ids[500 : 500 + 2 * DENIED_OBJECTS_MAX])
    world.store.denied_keys = {object_key(each) for each in held}
    report = sweep(world.context)
    assert report.objects_deleted == 1_500 - len(held)
    assert set(world.image.destroyed) == held and world.keys() == world.store.denied_keys
    assert len(report.passed_over) == 1, "the bucket is named, with the reason of its last denial"


def test_a_bucket_that_the_settings_do_not_know_is_passed_over() -> None:
    world = MaintainedStore((0, 1))
    left = destroyed_long_ago(world, 1, (0, 1))[1]
    report = sweep(world.another_context({0: world.store}))
    assert report.objects_deleted == 1
    (reason,) = report.passed_over
    assert reason.startswith("bucket 1: ") and "add buckets.1" in reason
    assert set(world.image.destroyed) == set(left)


@pytest.mark.parametrize("call", ["delete", "list_multipart", "abort_multipart"])
@pytest.mark.parametrize("fault", ALL_FAULTS)
def test_whatever_fails_the_next_sweep_completes(fault: Fault, call: str) -> None:
    world = MaintainedStore()
    world.append(world.new_stream())
    destroyed_long_ago(world, 10)
    world.store.start_multipart(object_key(0))
    faulty = FaultyStore(world.store)
    faulty.fail_next(fault, call=call)
    context = world.another_context({0: faulty})
    report = sweep(context)
    if (fault, call) == (Fault.DENIED, "delete"):
        assert report.passed_over == (), "a denied batch is tried again in parts"
    else:
        assert report.passed_over[0].startswith(f"bucket 0: {call}")
    faulty.calm()
    assert sweep(context).passed_over == ()
    assert world.keys() == world.committed_keys()
    assert uploads_of(world) == set() and not world.image.destroyed


@pytest.mark.parametrize("seed", range(20))
def test_a_store_that_fails_by_chance_is_swept_in_the_end(seed: int) -> None:
    rng = seeded_randomness(seed)
    world = MaintainedStore((0, 1))
    streams = [world.new_stream() for _ in range(2)]
    for bucket_id in (0, 1, 0):
        world.append(*streams, bucket_id=bucket_id)
        world.destroyed(rng.randrange(1, 30), bucket_id)
        for object_id in world.image.objects:
            world.stores[bucket_id].start_multipart(object_key(object_id))
    stores = {
        bucket_id: FaultyStore(store, seeded_randomness(seed + bucket_id), fault_rate=0.4, faults=BY_CHANCE)
        for bucket_id, store in world.stores.items()
    }
    context = world.another_context(stores)
    for _ in range(10):
        world.clock.advance_ms(GRACE_PERIOD_MS)
        sweep(context)
        for bucket_id in stores:
            assert world.committed_keys(bucket_id) <= world.keys(bucket_id)
    for store in stores.values():
        store.calm()
    assert sweep(context).passed_over == ()
    for bucket_id in stores:
        assert world.keys(bucket_id) == world.committed_keys(bucket_id)
        assert uploads_of(world, bucket_id) == set()


def test_metadata_that_takes_nothing_ends_the_sweep_and_blames_no_bucket() -> None:
    """The bytes are gone, forgetting failed: the next sweep deletes again and forgets."""
    world = MaintainedStore((0, 1))
    destroyed_long_ago(world, 3, (0, 1))
    world.log.faults.extend([faulty_log.Fault.UNAVAILABLE] * 8)
    with pytest.raises(Unavailable):
        sweep(world.context)
    assert world.keys(0) == set() and len(world.image.destroyed) == 6
    report = sweep(world.context)
    assert (report.objects_deleted, report.passed_over) == (6, ())
    assert not world.image.objects and world.keys(1) == set()


def test_metadata_out_of_reach_while_uploads_are_judged_ends_the_sweep(monkeypatch) -> None:
    world = MaintainedStore()
    world.append(world.new_stream())
    world.store.start_multipart(object_key(0))

    def cut(name: str, key: str) -> None:
        def fail(*_: object) -> None:
            raise LogUnavailable("no connection")

        if name == "list_multipart":
            monkeypatch.setattr(world.log, "read_after", fail)

    world.store.after = cut
    with pytest.raises(LogUnavailable):
        sweep(world.context)
    assert world.store.counts["abort_multipart"] == 0


@pytest.mark.parametrize("fault", [faulty_log.Fault.LOST, faulty_log.Fault.DONE, faulty_log.Fault.LATE])
def test_an_append_whose_answer_is_lost_is_asked_again(fault: faulty_log.Fault) -> None:
    world = MaintainedStore()
    destroyed_long_ago(world, 3)
    world.log.faults.append(fault)
    assert sweep(world.context).objects_deleted == 3
    assert not world.image.objects and world.keys() == set()


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    "moment", ["before delete", "after delete", "before list_multipart", "after abort_multipart"]
)
def test_a_sweep_that_is_killed_does_no_harm(moment: str) -> None:
    """Between the delete and the forgetting above all."""
    world = MaintainedStore()
    kept = world.append(world.new_stream())
    destroyed_long_ago(world, 1_500)
    for _ in range(2):
        world.store.start_multipart(object_key(kept))

    def kill(name: str, key: str) -> None:
        if name == moment.split()[1]:
            raise Killed

    setattr(world.store, moment.split(maxsplit=1)[0], kill)
    with pytest.raises(Killed):
        sweep(world.another_context())
    if moment == "after delete":
        assert len(world.image.destroyed) == 1_500 and len(world.keys()) == 501
    world.store.before = world.store.after = lambda name, key: None
    assert sweep(world.another_context()).passed_over == ()
    assert world.keys() == {object_key(kept)} and not world.image.destroyed
    assert uploads_of(world) == set()


@pytest.mark.parametrize("held_at", ["before", "after"])
def test_two_sweeps_at_once(held_at: str) -> None:
    """Both have chosen the same batch when the first delete is made; or both have deleted when the first forgets."""
    world = MaintainedStore()
    kept = world.append(world.new_stream())
    destroyed_long_ago(world, 1_000)
    world.store.start_multipart(object_key(kept))
    both = Barrier(2, timeout=60)

    def meet(name: str, key: str) -> None:
        if name in ("delete", "list_multipart"):
            both.wait()

    setattr(world.store, held_at, meet)
    reports: list[SweepReport] = []
    contexts = [world.another_context(), world.another_context()]
    threads = [Thread(target=lambda of=context: reports.append(sweep(of))) for context in contexts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [report.passed_over for report in reports] == [(), ()]
    assert world.store.counts["delete"] == 2
    assert world.keys() == {object_key(kept)} and not world.image.destroyed
    assert uploads_of(world) == set()


def test_another_sweep_forgets_what_this_one_has_just_deleted() -> None:
    world = MaintainedStore()
    (ids,) = destroyed_long_ago(world, 2).values()
    other = world.another_context()
    world.log.before_append.append(lambda: other.metadata.execute(ForgetObjects(tuple(ids))))
    assert sweep(world.context).passed_over == ()
    assert not world.image.objects
