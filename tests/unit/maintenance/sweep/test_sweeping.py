from collections.abc import Iterator, Sequence

import msgspec
import pytest

from siltstone.foundation import sharded_map
from siltstone.foundation.sharded_map import ShardedMap, ShardedMapDraft
from siltstone.maintenance.sweep import sweeping
from siltstone.maintenance.sweep.sweeping import SweepReport, sweep
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import CommitUpload
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry, LogPosition, encode_entry
from siltstone.metadata.refusals import ObjectNotExist
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.memory import MemoryLog
from siltstone.model.limits import GRACE_PERIOD_MS, HOUR_MS
from siltstone.model.objects import ObjectState, object_key
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.offline.context import MaintenanceContext
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.engine.batches import batch
from support.maintenance.maintained_store import MaintainedStore
from support.maintenance.sweep_tests import destroyed_long_ago
from support.processes.tried import RecordTried

NOTHING = SweepReport(0, 0, 0, 0, 0, 0, ())


def test_nothing_to_do() -> None:
    world = MaintainedStore()
    assert sweep(world.context) == NOTHING
    assert world.store.counts == {"list_multipart": 1}


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
