"""Whole checks of stores that commands have made: clean, then damaged in exactly one way."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Barrier, Lock, RLock

import pytest

from siltstone.maintenance.checking.check import FAILED_MAX, THREADS_MAX, check
from siltstone.maintenance.checking.findings import CheckReport, FindingKind, Severity
from siltstone.maintenance.checking.repair_plan import plan_repair
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store.port import LogUnavailable
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.model.objects import object_key
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import StoreDenied, StoreTransient
from siltstone.offline.context import MaintenanceContext
from support.engine.batches import batch
from support.engine.engine_world import World
from support.engine.faulty_store import FaultyStore
from support.engine.replacing import replace_object
from support.maintenance.maintained_store import MaintainedStore

K = FindingKind
CLEAN: list[FindingKind] = []


def kinds(report: CheckReport) -> list[FindingKind]:
    return [finding.kind for finding in report.findings]


def small_world(bucket_ids: tuple[int, ...] = (0,)) -> MaintainedStore:
    """Three streams in four stream set objects of the same size: objects 0 to 3; three batches of ten each."""
    world = MaintainedStore(bucket_ids)
    streams = [world.new_stream() for _ in range(3)]
    for number in range(4):
        world.append(*streams, bucket_id=bucket_ids[number % len(bucket_ids)])
    return world


class Fixed:
    """Metadata whose image the test sets."""

    def __init__(self, *images: MetadataImage) -> None:
        self._images = list(images)

    def now_ms(self) -> int:
        return 0

    def refresh(self) -> MetadataImage:
        return self._images.pop(0) if len(self._images) > 1 else self._images[0]


def context_of(world: MaintainedStore, metadata: object) -> MaintenanceContext:
    return MaintenanceContext(metadata, Buckets(world.stores), world.clock, Random(0))


# -- whole stores -----------------------------------------------------------------------------------------


def test_an_empty_store() -> None:
    heard: list[tuple[int, int]] = []
    report = check(MaintainedStore().context, on_progress=lambda done, total: heard.append((done, total)))
    assert report == CheckReport((), 0, 0, 0, 0) and report.is_clean
    assert heard == []


def test_a_whole_store_and_what_was_looked_at() -> None:
    world = small_world()
    report = check(world.context)
    assert (kinds(report), report.is_clean) == (CLEAN, True)
    assert (report.streams_checked, report.objects_checked) == (3, 4)
    assert report.blocks_checked == 4 * 3 * 2
    assert report.bytes_read == 4 * 3 * 3 * (72 + 60)


def test_indexes_only_reads_no_block() -> None:
    world = small_world()
    report = check(world.context, read_blocks=False)
    assert (report.is_clean, report.blocks_checked, report.bytes_read) == (True, 0, 0)
    assert world.store.counts == {"head": 4, "get_range": 4, "list": 2, "list_multipart": 1}
    size = len(world.bytes_of(0))
    assert {(start, end) for _, start, end in world.store.details("get_range")} == {(0, size)}


def test_a_full_check_reads_each_object_twice_at_most() -> None:
    """Its tail, then its joined blocks. The bucket is listed once to see whether it answers, and once to be judged."""
    world = small_world()
    check(world.context)
    assert world.store.counts == {"head": 4, "get_range": 8, "list": 2, "list_multipart": 1}


def test_trimmed_and_deleted_streams() -> None:
    """A start inside a block, start == end, a trim past the end, a deleted stream whose ranges remain, one that lies
    in stream objects alone; then a commit across the trim, and a compaction that leaves out what is dead."""
    world = small_world()
    alone = world.new_stream()
    world.upload([batch(alone, 0, 10)], alone=True)
    for stream_id, start in ((0, 5), (1, 120), (2, 130)):
        world.trim(stream_id, start)
        assert check(world.context).is_clean
    world.delete_stream(alone)
    world.delete_stream(1)
    assert world.image.streams[1].ranges
    report = check(world.context)
    assert kinds(report) == [K.OBJECT_AWAITS_DELETION] and report.is_clean
    world.upload([batch(2, 120, 20)])
    assert check(world.context).is_clean
    world.compact([0, 1, 2, 3], [batch(0, 10 * number, 10, 60) for number in range(12)])
    report = check(world.context)
    assert report.is_clean and set(kinds(report)) == {K.OBJECT_AWAITS_DELETION}
    assert report.streams_checked == 2
    world.clock.advance_ms(GRACE_PERIOD_MS)
    sweep(world.context)
    assert kinds(check(world.context)) == CLEAN


def test_what_a_node_leaves_behind(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        async with world.node() as node:
            streams = [await node.new_stream() for _ in range(3)]
            for number in range(120):
                await node.append(streams[number % 3], bytes([number]) * 700, 5)
            await node.engine.trim(streams[0], 33)

    world = World(tmp_path)
    asyncio.run(scenario(world))
    metadata = MetadataClient(world.log, world.clock, world.rng)
    report = check(MaintenanceContext(metadata, Buckets({0: world.store}), world.clock, world.rng))
    assert report.is_clean, report.findings
    assert report.objects_checked > 3 and report.bytes_read > 120 * 700


# -- damage -----------------------------------------------------------------------------------------------


def swap(world: MaintainedStore) -> None:
    first, second = world.bytes_of(0), world.bytes_of(1)
    assert len(first) == len(second)
    world.overwrite(0, second)
    world.overwrite(1, first)


def truncate(world: MaintainedStore) -> None:
    world.overwrite(2, world.bytes_of(2)[:-1])


DAMAGES: dict[str, tuple[Callable[[MaintainedStore], object], list[tuple[FindingKind, int]], bool]] = {
    "a byte of a block": (lambda world: world.flip(1, 80), [(K.OBJECT_DAMAGED, 1)], False),
    "a byte of the index": (lambda world: world.flip(1, -100), [(K.OBJECT_DAMAGED, 1)], True),
    "a byte of the footer": (lambda world: world.flip(3, -30), [(K.OBJECT_DAMAGED, 3)], True),
    "the end": (truncate, [(K.OBJECT_DAMAGED, 2)], True),
    "all bytes": (lambda world: world.overwrite(2, b""), [(K.OBJECT_DAMAGED, 2)], True),
    "an object": (lambda world: world.lose(0), [(K.OBJECT_MISSING, 0)], True),
    "two objects swapped": (
        swap,
        [(K.INDEX_CONTRADICTS_IMAGE, 0), (K.INDEX_CONTRADICTS_IMAGE, 1)] * 3,
        True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_damage(name: str) -> None:
    damage, expected, seen_in_index = DAMAGES[name]
    world = small_world()
    damage(world)
    full = check(world.context)
    assert [(each.kind, each.object_id) for each in full.findings] == expected
    assert {each.severity for each in full.findings} == {Severity.ERROR} and not full.is_clean
    assert full.objects_checked == 4
    indexes = check(world.context, read_blocks=False)
    assert kinds(indexes) == (kinds(full) if seen_in_index else CLEAN)


def test_an_object_in_the_wrong_bucket_is_missing_here_and_an_orphan_there() -> None:
    world = small_world((0, 1))
    content = world.bytes_of(0)
    world.lose(0)
    replace_object(world.stores[1], object_key(0), [content])
    report = check(world.context)
    assert [(each.kind, each.object_id) for each in report.findings] == [
        (K.OBJECT_MISSING, 0),
        (K.ORPHAN_OBJECT, 0),
    ]


def test_the_images_contradictions_are_told_with_the_rest() -> None:
    """The image of a store that lost a stream, and one whose stream ends later than anything committed."""
    world = small_world()
    whole = world.image
    streams = whole.streams.draft()
    longer = streams[2]
    streams[2] = type(longer)(**{
        **{name: getattr(longer, name) for name in longer.__struct_fields__}, "end_offset": 125
    })  # fmt: skip
    del streams[1]
    broken = type(whole)(streams=streams.frozen(), objects=whole.objects, next_object_id=whole.next_object_id)
    report = check(context_of(world, Fixed(broken)))
    assert [(each.kind, each.stream_id, each.object_id) for each in report.findings] == [
        (K.OFFSETS_NOT_COVERED, 2, None),
        *((K.STREAM_MISSING, 1, object_id) for object_id in range(4)),
    ]


def test_the_worst_comes_first_then_by_kind_stream_and_object() -> None:
    world = small_world()
    for _ in range(1_100):
        world.append(0, batches=1)
    for object_id in (1030, 7, 3):
        world.lose(object_id)
    for object_id in (1, 5, 1029):
        world.flip(object_id, 80)
    world.store.put("some/file", [b""])
    world.store.start_multipart(object_key(2))
    for _ in range(2):
        world.put(world.prepare(), [batch(0)])
    findings = check(world.context).findings
    assert [(each.severity, each.kind, each.object_id) for each in findings] == [
        (Severity.ERROR, K.OBJECT_MISSING, 3),
        (Severity.ERROR, K.OBJECT_MISSING, 7),
        (Severity.ERROR, K.OBJECT_MISSING, 1030),
        (Severity.ERROR, K.OBJECT_DAMAGED, 1),
        (Severity.ERROR, K.OBJECT_DAMAGED, 5),
        (Severity.ERROR, K.OBJECT_DAMAGED, 1029),
        (Severity.WARNING, K.FOREIGN_KEY, None),
        (Severity.WARNING, K.ORPHAN_UPLOAD, 2),
        (Severity.NOTE, K.OBJECT_PREPARED, 1104),
        (Severity.NOTE, K.OBJECT_PREPARED, 1105),
    ]


# -- buckets and metadata out of reach ---------------------------------------------------------------------


def test_a_bucket_that_the_settings_do_not_know() -> None:
    world = small_world((0, 1))
    report = check(world.another_context({0: world.store}))
    assert [(each.kind, each.object_id, each.key) for each in report.findings] == [
        (K.STORE_UNREACHABLE, object_id, object_key(object_id)) for object_id in (1, 3)
    ]
    assert "bucket 1, which is not in the settings; add buckets.1" in report.findings[0].text
    assert (report.objects_checked, report.is_clean) == (4, False)


@pytest.mark.parametrize("trouble", [StoreTransient("no route"), StoreDenied("no permission")])
def test_a_bucket_that_does_not_answer_leaves_the_others_checked(trouble: Exception) -> None:
    world = small_world((0, 1))
    world.flip(0, 80)

    def fail(name: str, key: str) -> None:
        raise trouble

    world.stores[1].before = fail
    report = check(world.context)
    assert [(each.kind, each.object_id) for each in report.findings] == [
        (K.OBJECT_DAMAGED, 0),
        (K.STORE_UNREACHABLE, None),
    ]
    assert (
        f"bucket 1 cannot be listed: {trouble}; 2 objects there were not checked" == report.findings[1].text
    )
    assert (report.objects_checked, report.objects_not_checked) == (2, 2)
    assert not report.is_only_incomplete
    assert [name for name, _ in world.stores[1].calls] == ["list"], "nothing more is asked of it"


def test_b23_with_a_bucket_out_and_nothing_else_wrong_the_check_is_only_incomplete() -> None:
    world = small_world((0, 1))

    def fail(name: str, key: str) -> None:
        raise StoreTransient("no route")

    world.stores[1].before = fail
    report = check(world.context)
    assert report.is_only_incomplete and not report.is_clean
    plan = plan_repair(report, world.image.objects, world.clock.now_ms())
    assert not plan.repairs


def test_a_bucket_that_falls_silent_during_the_check_is_asked_no_more() -> None:
    world = MaintainedStore()
    stream_id = world.new_stream()
    for _ in range(10 * FAILED_MAX):
        world.append(stream_id, batches=1)

    def fail(name: str, key: str) -> None:
        if name != "list":
            raise StoreTransient("no route")

    world.store.before = fail
    report = check(world.context)
    unread = [each for each in report.findings if each.object_id is not None]
    assert FAILED_MAX <= len(unread) < FAILED_MAX + THREADS_MAX
    assert {each.bucket_id for each in report.findings} == {0}
    (silent,) = [each for each in report.findings if each.object_id is None]
    assert report.objects_not_checked == 10 * FAILED_MAX - len(unread)
    assert silent.text.startswith("bucket 0 could not be read any more: ")
    assert f"{report.objects_not_checked} objects there were not checked" in silent.text


@pytest.mark.parametrize("seed", range(10))
def test_a_store_that_fails_by_chance_is_never_said_to_be_damaged(seed: int) -> None:
    world = small_world()
    faulty = FaultyStore(world.store, Random(seed), fault_rate=0.3)
    assert set(kinds(check(world.another_context({0: faulty})))) <= {K.STORE_UNREACHABLE}
    faulty.calm()
    assert kinds(check(world.another_context({0: faulty}))) == CLEAN


def test_metadata_out_of_reach_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    world = small_world()

    def fail(*_: object) -> None:
        raise LogUnavailable("no connection")

    def cut(name: str, key: str) -> None:
        monkeypatch.setattr(world.log, "read_after", fail)

    world.store.before = cut
    with pytest.raises(LogUnavailable):
        check(world.context)
    with pytest.raises(LogUnavailable):
        check(world.context)


# -- beside others at work --------------------------------------------------------------------------------


@pytest.mark.parametrize("read_blocks", [True, False])
@pytest.mark.parametrize("call", ["head", "get_range"])
@pytest.mark.parametrize("is_swept", [True, False])
def test_objects_compacted_and_swept_while_they_are_checked_are_no_alarm(
    call: str, is_swept: bool, read_blocks: bool
) -> None:
    world = small_world()
    lock = RLock()
    pending = [True]

    def overtake(name: str, key: str) -> None:
        with lock:
            if name == call and pending:
                pending.clear()
                batches = [batch(stream, 10 * number, 10, 60) for stream in range(3) for number in range(12)]
                world.compact([0, 1, 2, 3], batches)
                if is_swept:
                    world.clock.advance_ms(GRACE_PERIOD_MS)
                    sweep(world.context)

    world.store.before = overtake
    report = check(world.another_context(), read_blocks=read_blocks)
    assert report.is_clean, report.findings
    assert world.committed_keys() == {object_key(4)}
    assert set(kinds(report)) <= {K.OBJECT_AWAITS_DELETION}


def test_damage_is_told_while_others_are_at_work() -> None:
    """Only what left the metadata is forgiven."""
    world = small_world()
    world.lose(0)
    world.flip(3, 80)
    pending = [True]

    def overtake(name: str, key: str) -> None:
        if name == "head" and pending:
            pending.clear()
            world.append(0)

    world.store.before = overtake
    assert kinds(check(world.another_context())) == [K.OBJECT_MISSING, K.OBJECT_DAMAGED]


def test_appends_committed_while_the_bucket_is_listed_are_no_alarm() -> None:
    world = small_world()
    pending = [True]

    def append(name: str, key: str) -> None:
        if name == "list" and pending:
            pending.clear()
            world.append(0)

    world.store.before = append
    assert kinds(check(world.another_context())) == CLEAN


# -- progress, threads, memory ----------------------------------------------------------------------------


def test_progress_counts_every_object_once() -> None:
    world = small_world((0, 1))
    heard: list[tuple[int, int]] = []
    check(
        world.another_context({0: world.store}), on_progress=lambda done, total: heard.append((done, total))
    )
    assert heard == [(done, 4) for done in range(1, 5)]


def test_no_more_objects_wait_for_a_thread_than_there_is_room_for() -> None:
    world = small_world()
    for _ in range(6):
        world.append(0)
    heard: list[tuple[int, int]] = []
    report = check(world.context, on_progress=lambda done, total: heard.append((done, total)), queued_max=3)
    assert (report.objects_checked, report.is_clean) == (10, True)
    assert heard == [(done, 10) for done in range(1, 11)]


def test_so_many_objects_are_read_side_by_side_and_no_more() -> None:
    world = small_world()
    for _ in range(3 * THREADS_MAX - 4):
        world.append(0)
    together = Barrier(THREADS_MAX, timeout=60)
    lock, under_way, most = Lock(), [0], [0]

    def begin(name: str, key: str) -> None:
        if name == "head":
            with lock:
                under_way[0] += 1
                most[0] = max(most[0], under_way[0])
            together.wait()

    def end(name: str, key: str) -> None:
        if name == "head":
            with lock:
                under_way[0] -= 1

    world.store.before, world.store.after = begin, end
    assert check(world.context).is_clean
    assert most[0] == THREADS_MAX


def test_a_check_only_reads() -> None:
    world = small_world()
    world.destroyed(2)
    world.store.put("some/file", [b""])
    world.store.start_multipart("other/file")
    version, keys, uploads = world.image.version, world.keys(), list(MemoryStore.list_multipart(world.store))
    check(world.context)
    assert (world.image.version, world.keys()) == (version, keys)
    assert list(MemoryStore.list_multipart(world.store)) == uploads
    assert set(world.store.counts) == {"head", "get_range", "list", "list_multipart"}
