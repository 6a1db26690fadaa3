"""Random stores, trimmed and with streams deleted, then collected: no record changes, what is freed is what was said,
and a byte freed costs u/(1-u) bytes written."""

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from siltstone.carrying.pipeline.kind import Outcome, Plan, Scope
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.garbage_collection.planning import is_dead
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.metadata.entities import StreamState
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.offline.settings import Level
from support.engine.objects import index_of
from support.maintenance.collecting_world import YOUNG, all_dead_destroyed, collected, collection
from support.maintenance.collecting_world import settings as gc_settings
from support.maintenance.compaction_world import CompactionWorld, compaction_world
from support.maintenance.spread import ONE_BUCKET, SPREADS, Spread
from support.values.examples import examples

STREAMS = 5
SSO, SO = ObjectKind.STREAM_SET_OBJECT, ObjectKind.STREAM_OBJECT


class Case(msgspec.Struct, frozen=True):
    uploads: list[tuple[bool, dict[int, list[int]]]]
    """Whether each stream has an object of its own; for each stream the sizes of the blocks that continue it."""
    trims: dict[int, int]
    deleted: set[int]
    threshold: float
    round_bytes: int
    split_size_bytes: int
    target_size_bytes: int
    spread: Spread


@st.composite
def cases(draw: st.DrawFn) -> Case:
    blocks = st.lists(st.integers(73, 400), min_size=1, max_size=4)
    upload = st.tuples(
        st.booleans(), st.dictionaries(st.integers(0, STREAMS - 1), blocks, min_size=1, max_size=STREAMS)
    )
    return Case(
        uploads=draw(st.lists(upload, min_size=1, max_size=6)),
        trims=draw(st.dictionaries(st.integers(0, STREAMS - 1), st.integers(1, 90), max_size=STREAMS)),
        deleted=draw(st.sets(st.integers(0, STREAMS - 1), max_size=2)),
        threshold=draw(st.sampled_from([0.3, 0.5, 0.8, 1.0])),
        round_bytes=draw(st.sampled_from([1, 500, 10**6])),
        split_size_bytes=draw(st.sampled_from([0, 300, 10**6])),
        target_size_bytes=draw(st.sampled_from([1, 2000])),
        spread=draw(SPREADS),
    )


def built(world: CompactionWorld, case: Case) -> None:
    world.make_streams(STREAMS)
    ends = dict.fromkeys(range(STREAMS), 0)
    for is_alone, upload in case.uploads:
        spec = {}
        for stream, sizes in upload.items():
            spec[stream] = [
                (ends[stream] + 10 * at, ends[stream] + 10 * at + 10, size) for at, size in enumerate(sizes)
            ]
            ends[stream] += 10 * len(sizes)
        if is_alone:
            for stream, held in spec.items():
                world._commit({stream: held}, SO, 0)
        else:
            world.upload(spec)
    for stream, start in case.trims.items():
        world.trim(stream, start)
    for stream in case.deleted:
        world.delete_stream(stream)


def live_and_all(world: CompactionWorld, object_id: int) -> tuple[int, int]:
    """Block by block, from the bytes: a slow, plain model."""
    streams = world.metadata.image.streams
    live = whole = 0
    for entry in index_of(world.bytes_of(object_id)):
        stream = streams.get(entry.stream_id)
        is_live = (
            stream is not None
            and stream.state is not StreamState.DELETED
            and entry.end_offset > stream.start_offset
        )
        whole += entry.size_bytes
        live += entry.size_bytes if is_live else 0
    return live, whole


def kind_of(case: Case):
    gc = gc_settings(
        minor_threshold=0.01,
        major_threshold=case.threshold,
        round_bytes=case.round_bytes,
        target_size_bytes=case.target_size_bytes,
    )
    return collection(Level.MAJOR, gc, msgspec.structs.replace(YOUNG, split_size_bytes=case.split_size_bytes))


def members_of(plan: Plan, name: str) -> list[int]:
    work = plan.work.units[name]
    return [each.object_id for each in (work if isinstance(work, tuple) else work.members)]


def merged_to_the_end(world: CompactionWorld, case: Case) -> dict[int, tuple[int, int]]:
    """Collects until nothing is left to do. A long stretch of a stream leaves its stream set object, so objects that
    did not fit into one round before it may fit into one after it. Such a round frees nothing and merges: there is one
    stream set object less after each. Returns the objects at the end with their live and all bytes; empty if nothing
    was left."""
    found: dict[int, tuple[int, int]] = {}
    kind = kind_of(case)
    while (left := kind.plan(world.context, Scope(), Watch(kind.name, world.clock))).units:
        sets = world.ids(SSO)
        assert all(len(members_of(left, unit.name)) > 1 for unit in left.units), (
            "one object is never moved alone"
        )
        collected(world.context, kind_of(case))
        assert len(world.ids(SSO)) < len(sets), "each run has less to do"
        found = {each: live_and_all(world, each) for each in world.ids(SSO) | world.ids(SO)}
    return found


@settings(max_examples=examples(60))
@given(cases())
@example(
    Case(
        uploads=[(False, {0: [73], 1: [73], 2: [73, 228]}), (False, {0: [73], 1: [73, 73]})],
        trims={},
        deleted={0},
        threshold=1.0,
        round_bytes=500,
        split_size_bytes=300,
        target_size_bytes=2_000,
        spread=ONE_BUCKET,
    )
)
def test_a_collection_changes_no_record_and_frees_what_it_said(case: Case) -> None:
    with compaction_world(case.spread) as world:
        built(world, case)
        before = world.records()
        image = world.metadata.image
        dead = {
            each.object_id for each in image.objects.values() if each.ranges and is_dead(each, image.streams)
        }
        assert dead == {
            each.object_id
            for each in image.objects.values()
            if each.state is ObjectState.COMMITTED and not live_and_all(world, each.object_id)[0]
        }
        all_dead_destroyed(world.context)
        assert (
            world.ids(SSO) | world.ids(SO)
            == {each for each, held in image.objects.items() if held.state is ObjectState.COMMITTED} - dead
        )

        kind = kind_of(case)
        plan = kind.plan(world.context, Scope(), Watch(kind.name, world.clock))
        shares = {each: live_and_all(world, each) for each in world.ids(SSO) | world.ids(SO)}
        sparse = {each for each, (live, whole) in shares.items() if live < case.threshold * whole}
        chosen = {each for name in plan.work.units for each in members_of(plan, name)}
        assert sparse <= chosen, "none that is worth it is missed"
        for unit in plan.units:
            live = sum(shares[each][0] for each in members_of(plan, unit.name))
            assert unit.bytes_written == live

        report = collected(world.context, kind_of(case))
        assert all(each.outcome is Outcome.DONE for each in report.units)
        assert world.records() == before
        gone = chosen & {each for each, held in world.metadata.image.objects.items() if not held.ranges}
        assert gone == chosen
        after = {each: live_and_all(world, each) for each in world.ids(SSO) | world.ids(SO)}
        made = {each: held for each, held in after.items() if each not in shares}
        written = sum(whole for _, whole in made.values())
        assert written == sum(shares[each][0] for each in chosen), (
            "live bytes are written once, nothing else is"
        )
        assert all(live == whole for live, whole in made.values())
        after = merged_to_the_end(world, case) or after
        assert world.records() == before

        world.clock.advance_ms(GRACE_PERIOD_MS)
        sweep(world.context)
        assert world.bucket_keys() == {object_key(each) for each in after}
        world.assert_sound()


@settings(max_examples=examples(30))
@given(kept=st.integers(100, 7_900), streams=st.integers(1, 3))
def test_bytes_written_for_each_byte_freed(kept: int, streams: int) -> None:
    """u/(1-u) at a live ratio of u."""
    with compaction_world() as world:
        world.upload(
            {
                0: [(0, 10, 10_000 - kept)],
                **{1 + at: [(0, 10, kept // streams + 80)] for at in range(streams)},
            }
        )
        world.trim(0, 10)
        live, whole = live_and_all(world, 0)
        u = live / whole
        (unit,) = collected(world.context, collection(settings=gc_settings(major_threshold=1.0))).units
        (made,) = world.ids(SSO)
        written = live_and_all(world, made)[1]
        assert written / (whole - written) == pytest.approx(u / (1 - u))
        assert unit.bytes_read == written
