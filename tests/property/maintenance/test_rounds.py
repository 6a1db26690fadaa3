"""Random stores, really compacted: no record changes, nothing is left to do, the check finds nothing."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.offline.settings import CompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner
from support.maintenance.compacting import compact
from support.maintenance.compaction_world import CompactionWorld, compaction_world
from support.maintenance.spread import SPREADS, Spread
from support.values.examples import examples


class Case(msgspec.Struct, frozen=True):
    uploads: list[dict[int, list[int]]]
    """For each object: for each stream the sizes of the blocks that continue it."""
    trims: dict[int, int]
    deleted: set[int]
    settings: CompactionSettings
    spread: Spread


@st.composite
def cases(draw: st.DrawFn) -> Case:
    part_bytes_min = draw(st.integers(1, 300))
    return Case(
        uploads=draw(
            st.lists(
                st.dictionaries(
                    st.integers(0, 3),
                    st.lists(st.integers(73, 300), min_size=1, max_size=3),
                    min_size=1,
                    max_size=4,
                ),
                min_size=1,
                max_size=6,
            )
        ),
        trims=draw(st.dictionaries(st.integers(0, 3), st.integers(1, 30), max_size=2)),
        deleted=draw(st.sets(st.integers(0, 3), max_size=1)),
        spread=draw(SPREADS),
        settings=CompactionSettings(
            split_size_bytes=draw(st.integers(0, 900)),
            memory_bytes=draw(st.integers(300 + part_bytes_min, 1500)),
            part_bytes_min=part_bytes_min,
            merged_block_bytes_max=draw(st.integers(1, 1000)),
            read_request_bytes_max=draw(st.integers(50, 1000)),
            force_split_age_ms=draw(st.sampled_from([0, 10**9])),
        ),
    )


def built(world: CompactionWorld, case: Case) -> None:
    world.make_streams(4)
    ends = dict.fromkeys(range(4), 0)
    for upload in case.uploads:
        spec = {}
        for stream, sizes in upload.items():
            spec[stream] = [
                (ends[stream] + 10 * at, ends[stream] + 10 * at + 10, size) for at, size in enumerate(sizes)
            ]
            ends[stream] += 10 * len(sizes)
        world.upload(spec)
    for stream, start in case.trims.items():
        world.trim(stream, start)
    for stream in case.deleted:
        world.delete_stream(stream)


@settings(max_examples=examples(40))
@given(cases())
def test_compaction_changes_no_record(case: Case) -> None:
    with compaction_world(case.spread) as world:
        built(world, case)
        before = world.records()
        streams = {each.stream_id: each for each in world.metadata.image.streams.values()}
        compact(world.context, InProcessRunner(), case.settings)
        assert world.records() == before
        for stream in world.metadata.image.streams.values():
            old = streams[stream.stream_id]
            assert (stream.start_offset, stream.end_offset, stream.epoch, stream.owner) == (
                old.start_offset, old.end_offset, old.epoch, old.owner,
            )  # fmt: skip
        world.assert_sound()
        assert not compact(world.context, InProcessRunner(), case.settings).committed
