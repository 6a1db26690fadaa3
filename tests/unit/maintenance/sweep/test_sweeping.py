import logging
from collections.abc import Iterable, Iterator, Sequence
from threading import Barrier, Thread

import msgspec
import pytest

from siltstone.foundation import sharded_map
from siltstone.foundation.sharded_map import ShardedMap, ShardedMapDraft
from siltstone.maintenance.sweep import sweeping
from siltstone.maintenance.sweep.sweeping import DENIED_OBJECTS_MAX, SweepReport, _Deleted, sweep
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import CommitUpload, ForgetObjects
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry, LogPosition, encode_entry
from siltstone.metadata.refusals import ObjectNotExist
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import LogUnavailable
from siltstone.model.errors import Unavailable
from siltstone.model.limits import GRACE_PERIOD_MS, HOUR_MS
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import MultipartUpload, StoreDenied, StoreTransient
from siltstone.offline.context import MaintenanceContext
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.engine.batches import batch
from support.engine.faulty_store import BY_CHANCE, Fault, FaultyStore
from support.maintenance.maintained_store import MaintainedStore
from support.metadata import faulty_log
from support.processes.tried import RecordTried
from support.values.left_out import numbers_left_out

NOTHING = SweepReport(0, 0, 0, 0, 0, 0, ())
ALL_FAULTS = tuple(Fault)


def destroyed_long_ago(
    world: MaintainedStore, count: int, bucket_ids: Iterable[int] = (0,)
) -> dict[int, list[int]]:
    """Expired in each of the buckets, and the grace period over; their ids by bucket."""
    ids = {bucket_id: world.destroyed(count, bucket_id) for bucket_id in bucket_ids}
    sweep(world.context)
    world.clock.advance_ms(GRACE_PERIOD_MS)
    return ids


def uploads_of(world: MaintainedStore, bucket_id: int = 0) -> set[MultipartUpload]:
    return set(MemoryStore.list_multipart(world.stores[bucket_id]))


def test_nothing_to_do() -> None:
    world = MaintainedStore()
    assert sweep(world.context) == NOTHING
    assert world.store.counts == {"list_multipart": 1}


# -- T27: the life of an object ---------------------------------------------------------------------------


def test_t27_an_expired_object_is_destroyed_then_deleted_with_one_call() -> None:
    world = MaintainedStore()
    object_id = world.prepare(time_limit_ms=3_000)
    key = object_key(object_id)
    world.store.put(key, [b"uploaded"])
    world.clock.advance_ms(2_999)
    assert sweep(world.context) == NOTHING
    world.clock.advance_ms(1)
    assert sweep(world.context) == SweepReport(1, 0, 0, 0, 0, 1, ())
    assert world.image.objects[object_id].state is ObjectState.DESTROYED
    assert world.keys() == {key}
    world.clock.advance_ms(GRACE_PERIOD_MS)
    assert sweep(world.context) == SweepReport(0, 1, 0, 1, 0, 0, ())
    assert world.keys() == set() and not world.image.objects
    assert world.store.details("delete") == [(key,)]
    assert sweep(world.context) == NOTHING


def test_t27_1700_expire_together_and_are_deleted_by_two_calls() -> None:
    world = MaintainedStore()
    ids = world.destroyed(1_700)
    assert sweep(world.context).objects_expired == 1_700
    world.clock.advance_ms(GRACE_PERIOD_MS)
    assert sweep(world.context) == SweepReport(0, 1_700, 0, 2, 0, 0, ())
    calls = world.store.details("delete")
    assert [len(keys) for keys in calls] == [1_000, 700]
    assert {key for keys in calls for key in keys} == {object_key(object_id) for object_id in ids}
    assert not world.image.objects and world.keys() == set()


class ForgetfulBucket(MemoryStore):
    """Holds nothing; ``sizes`` of the deletes, and the ``keys`` they named."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.sizes: list[int] = []
        self.deleted: set[str] = set()

    def delete(self, keys: Sequence[str]) -> None:
        self.sizes.append(len(keys))
        self.deleted.update(keys)


@pytest.mark.parametrize("composites", [12, pytest.param(1_002, marks=pytest.mark.nightly)])
def test_t13_as_many_objects_as_a_thousand_composites_of_200_links(
    monkeypatch: pytest.MonkeyPatch, composites: int, record_tried: RecordTried
) -> None:
    """We have no composites. All keys are deleted in batches, and again, without an error, as after a sweep that was
    killed before it could forget them."""
    count = composites * (200 + 1)
    if composites > 12:
        record_tried("objects swept", count)
    gone = ObjectMetadata(0, ObjectState.DESTROYED, 0, None, 1, 0, 0, 1, 0, ())
    objects = [(object_id, msgspec.structs.replace(gone, object_id=object_id)) for object_id in range(count)]
    destroyed = ShardedMap((object_id, 1) for object_id in range(count))
    image = MetadataImage(version=1, next_object_id=count, objects=ShardedMap(objects), destroyed=destroyed)
    log = MemoryLog()
    head = log.append(encode_entry(LogEntry("00" * 16, ())), LogPosition())
    log.save_snapshot(head, encode_snapshot(image))
    bucket, clock = ForgetfulBucket(), ManualClock()
    client = MetadataClient(log, clock, seeded_randomness(1))
    context = MaintenanceContext(client, Buckets({0: bucket}), clock, seeded_randomness(2))
    with monkeypatch.context() as patch:
        patch.setattr(client, "execute", lambda _: ())
        sweep(context)
    assert len(client.image.objects) == count
    report = sweep(context)
    assert (report.objects_deleted, report.delete_requests) == (count, count // 1_000 + 1)
    assert sweep(context) == NOTHING
    assert bucket.sizes == [*[1_000] * (count // 1_000), count % 1_000] * 2
    assert bucket.deleted == {object_key(object_id) for object_id in range(count)}


def test_more_expire_than_one_command_takes() -> None:
    world = MaintainedStore()
    world.prepare(4_500, time_limit_ms=1)
    world.clock.advance_ms(1)
    assert sweep(world.context).objects_expired == 4_500
    assert not world.image.prepared and len(world.image.destroyed) == 4_500


@pytest.mark.parametrize("swept_first", [False, True])
def test_t27_a_commit_that_arrives_after_expiry_is_refused(swept_first: bool) -> None:
    world = MaintainedStore()
    stream_id = world.new_stream()
    object_id = world.prepare(time_limit_ms=3_000)
    new = world.put(object_id, [batch(stream_id)])
    world.clock.advance_ms(3_000)
    if swept_first:
        sweep(world.context)
    version = world.image.version
    with pytest.raises(ObjectNotExist) as refused:
        world.metadata.execute(CommitUpload(0, 1, new))
    assert refused.value.code == "OBJECT_NOT_EXIST"
    assert world.image.version == version


def test_t27_deletes_follow_one_another() -> None:
    """More become due while a delete is under way: they wait for it."""
    world = MaintainedStore()
    destroyed_long_ago(world, 1_200)
    under_way: list[str] = []

    def begin(name: str, key: str) -> None:
        if name == "delete":
            assert not under_way
            under_way.append(key)

    world.store.before = begin
    world.store.after = lambda name, key: under_way.clear()
    assert sweep(world.context).delete_requests == 2


@pytest.mark.parametrize("grace_period_ms", [0, 1, 1_000, GRACE_PERIOD_MS])
def test_t27_the_grace_period_ends_exactly(grace_period_ms: int) -> None:
    world = MaintainedStore()
    (object_id,) = world.destroyed(1)
    report = sweep(world.context, grace_period_ms)
    if grace_period_ms:
        assert (report.objects_deleted, report.objects_waiting) == (0, 1)
        world.clock.advance_ms(grace_period_ms - 1)
        report = sweep(world.context, grace_period_ms)
        assert (report.objects_deleted, report.objects_waiting) == (0, 1)
        assert world.keys() == {object_key(object_id)}
        assert world.store.counts["delete"] == 0
        world.clock.advance_ms(1)
        report = sweep(world.context, grace_period_ms)
    assert (report.objects_deleted, report.objects_waiting) == (1, 0)
    assert world.keys() == set()


def test_what_was_compacted_is_deleted_after_its_grace_period_and_its_bytes_counted() -> None:
    world = MaintainedStore()
    stream_id = world.new_stream()
    old = [world.append(stream_id), world.append(stream_id)]
    size_bytes = sum(world.image.objects[each].size_bytes for each in old)
    new = world.compact(old, [batch(stream_id, 10 * number, 10, 60) for number in range(6)])
    assert sweep(world.context).objects_waiting == 2
    world.clock.advance_ms(GRACE_PERIOD_MS)
    assert sweep(world.context) == SweepReport(0, 2, size_bytes, 1, 0, 0, ())
    assert world.keys() == {object_key(new)}


# -- rule 6 -----------------------------------------------------------------------------------------------


def test_rule_6_what_committed_metadata_names_is_never_deleted() -> None:
    """Committed and prepared objects, far older than any limit, beside destroyed ones with neighbouring ids."""
    world = MaintainedStore()
    stream_id = world.new_stream()
    committed, gone = [], []
    for _ in range(5):
        committed.append(world.append(stream_id))
        gone += world.destroyed(1)
    prepared = world.prepare(3, time_limit_ms=10**15)
    world.store.put(object_key(prepared), [b"under way"])
    for _ in range(3):
        world.clock.advance_ms(1_000 * HOUR_MS)
        sweep(world.context, 0)
    named = {object_key(each) for each in (*committed, prepared)}
    assert world.keys() == named
    deleted = {key for keys in world.store.details("delete") for key in keys}
    assert deleted == {object_key(each) for each in gone}


def test_rule_6_the_metadata_decides_not_the_listing() -> None:
    """A bucket that shows everything, or nothing, or what is not there: the sweep does not ask it."""
    world = MaintainedStore()
    world.append(world.new_stream())
    destroyed_long_ago(world, 1)

    def refuse(name: str, key: str) -> None:
        assert name != "list"

    world.store.before = refuse
    assert sweep(world.context).objects_deleted == 1
    assert world.keys() == world.committed_keys()


class Counted:
    """Counts the entries of maps that are iterated over, and those that are copied with their shards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entries = 0
        iterate, own_shard = ShardedMap.__iter__, ShardedMapDraft._own_shard

        def counted_iterate(entries: ShardedMap[int, object]) -> Iterator[int]:
            for key in iterate(entries):
                self.entries += 1
                yield key

        def counted_own_shard(draft: ShardedMapDraft[int, object], number: int) -> dict[int, object]:
            if number not in draft._own:
                self.entries += len(draft._shards[number])
            return own_shard(draft, number)

        monkeypatch.setattr(sharded_map._Shards, "__iter__", counted_iterate)
        monkeypatch.setattr(ShardedMapDraft, "_own_shard", counted_own_shard)


def test_the_work_of_a_sweep_grows_with_the_objects_and_not_with_their_square(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeping, "EXPIRED_PER_COMMAND_MAX", 100)
    monkeypatch.setattr(sweeping, "DELETE_BATCH_KEYS_MAX", 100)
    spent = []
    for count in (2_000, 8_000):
        world = MaintainedStore()
        world.destroyed(count)
        with monkeypatch.context() as patched:
            counted = Counted(patched)
            assert sweep(world.context).objects_expired == count
            world.clock.advance_ms(GRACE_PERIOD_MS)
            assert sweep(world.context).objects_deleted == count
        spent.append(counted.entries / count)
    assert spent[1] < 1.2 * spent[0] < 30, "visits and copies of each entry"


def test_rule_6_a_commit_beats_the_sweep_that_wanted_to_expire_it() -> None:
    """The committing node's clock is behind; its commit gets into the log between the sweep's decision and append."""
    world = MaintainedStore()
    stream_id = world.new_stream()
    object_id = world.prepare(time_limit_ms=1_000)
    new = world.put(object_id, [batch(stream_id)])
    node = world.another_context().metadata
    node._clock = type(world.clock)(world.clock.now_ms())
    world.clock.advance_ms(1_000)
    world.log.before_append.append(lambda: node.execute(CommitUpload(0, 1, new)))
    assert sweep(world.context, 0).objects_expired == 0
    world.clock.advance_ms(HOUR_MS)
    assert sweep(world.context, 0) == NOTHING
    assert world.image.objects[object_id].state is ObjectState.COMMITTED
    assert world.keys() == {object_key(object_id)}


def test_rule_6_a_wrong_choice_of_objects_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The selection broken on purpose: what it chose is looked at once more before anything is deleted."""
    world = MaintainedStore()
    world.append(world.new_stream())
    world.put(world.prepare(), [batch(0)])
    keys = world.keys()
    for chosen in world.image.objects.values():
        monkeypatch.setattr(
            "siltstone.maintenance.sweep.sweeping.deletable_objects", lambda *_, one=chosen: [one]
        )
        with pytest.raises(AssertionError):
            sweep(world.context)
        assert world.keys() == keys and world.store.counts["delete"] == 0


# -- several buckets --------------------------------------------------------------------------------------


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


# -- a store that fails -----------------------------------------------------------------------------------


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


# -- metadata out of reach --------------------------------------------------------------------------------


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


# -- killed, and two at once ------------------------------------------------------------------------------


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


# -- multipart uploads ------------------------------------------------------------------------------------


def test_forsaken_uploads_are_aborted_and_live_ones_never() -> None:
    world = MaintainedStore((0, 1))
    committed = world.append(world.new_stream())
    (forgotten,) = destroyed_long_ago(world, 1)[0]
    sweep(world.context)
    (destroyed,) = world.destroyed(1)
    prepared = world.prepare(1, time_limit_ms=1_000)
    forsaken = [world.store.start_multipart(object_key(each)) for each in (committed, forgotten, destroyed)]
    forsaken.append(world.store.start_multipart(object_key(committed)))
    live = [world.store.start_multipart(object_key(prepared)) for _ in range(2)]
    report = sweep(world.context)
    assert report.uploads_aborted == 4
    assert uploads_of(world) == set(live)
    assert set(world.store.details("abort_multipart")) == set(forsaken)
    world.clock.advance_ms(1_000)
    assert sweep(world.context).uploads_aborted == 2, "given up with its object, at once"
    assert uploads_of(world) == set()


def test_foreign_objects_and_uploads_are_left_alone() -> None:
    world = MaintainedStore()
    destroyed_long_ago(world, 1)
    beyond = object_key(world.image.next_object_id)
    for key in ("backup/of/something", "objects/00000000000000000000", beyond):
        world.store.put(key, [b"not ours"])
        world.store.start_multipart(key)
    keys, uploads = world.keys() - {object_key(0)}, uploads_of(world)
    world.clock.advance_ms(100 * HOUR_MS)
    assert sweep(world.context, 0).uploads_aborted == 0
    assert (world.keys(), uploads_of(world)) == (keys, uploads)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_upload_started_while_the_sweep_looks_is_left_alone(moment: str) -> None:
    """Before the listing is made, or between listing and image; in either case by a client this one has not seen."""
    world = MaintainedStore()

    def begin(name: str, key: str) -> None:
        if name == "list_multipart":
            world.store.start_multipart(object_key(world.prepare()))

    context = world.another_context()
    setattr(world.store, moment, begin)
    assert sweep(context).uploads_aborted == 0
    assert len(uploads_of(world)) == 1


def test_an_upload_that_ends_while_the_sweep_looks_is_no_trouble() -> None:
    world = MaintainedStore()
    object_id = world.prepare()
    upload = world.store.start_multipart(object_key(object_id))

    def complete(name: str, key: str) -> None:
        if name == "list_multipart":
            part = world.store.upload_part(upload, 1, 0, [b"whole"])
            world.store.complete_multipart(upload, [part])

    world.store.after = complete
    assert sweep(world.context).uploads_aborted == 0
    assert world.keys() == {object_key(object_id)}


def test_buckets_with_uploads_are_looked_through_even_when_no_object_is_due() -> None:
    world = MaintainedStore((0, 1))
    committed = world.append(world.new_stream(), bucket_id=1)
    world.stores[1].start_multipart(object_key(committed))
    assert sweep(world.context).uploads_aborted == 1
    assert world.keys(1) == {object_key(committed)}


def test_what_is_left_out() -> None:
    assert numbers_left_out(_Deleted) == {"objects": 0, "size_bytes": 0, "requests": 0}
