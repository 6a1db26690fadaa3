"""Random layouts of stream objects, really compacted: no batch changes, and every new object is, byte for byte, what a
plain model makes of the old ones."""

from collections.abc import Mapping

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.carrying.pipeline.kind import Outcome
from siltstone.maintenance.stream_object_compaction.merge import CopiedPart, lay_out
from siltstone.maintenance.stream_object_compaction.planning import groups_of
from siltstone.metadata.entities import ObjectMetadata, StreamState
from siltstone.model.objects import ObjectKind
from siltstone.model.record_batch import BlockEntry
from siltstone.object_formats.object_layout import trailer_bytes
from siltstone.offline.blocks.columns import ENTRY
from siltstone.offline.settings import StreamObjectCompactionSettings
from support.engine.objects import index_of
from support.maintenance.block_join import join_blocks
from support.maintenance.compaction_world import CompactionWorld, compaction_world
from support.maintenance.spread import SPREADS, Spread
from support.maintenance.stream_object_world import add_stream_object, joined_up, member
from support.values.examples import examples

STREAMS = 3


class Upload(msgspec.Struct, frozen=True):
    """What continues ``stream``: blocks of these sizes, as a stream object or in a stream set object."""

    stream: int
    sizes: list[int]
    is_set: bool


class Case(msgspec.Struct, frozen=True):
    uploads: list[Upload]
    trims: dict[int, int]
    deleted: set[int]
    settings: StreamObjectCompactionSettings
    spread: Spread


@st.composite
def compaction_settings(draw: st.DrawFn) -> StreamObjectCompactionSettings:
    part_bytes_min = draw(st.sampled_from([1, 200, 500, 1_000]))
    return StreamObjectCompactionSettings(
        small_object_bytes=draw(st.sampled_from([0, 500, 2_000])),
        settled_ms=draw(st.sampled_from([0, 10_000_000])),
        largest_share_max=draw(st.sampled_from([0.5, 0.6, 0.9, 1.0])),
        group_bytes_max=draw(st.integers(500, 10_000)),
        group_objects_max=draw(st.integers(2, 10)),
        copy_bytes_max=draw(st.integers(2 * part_bytes_min, 4_000)),
        part_bytes_min=part_bytes_min,
        read_request_bytes_max=draw(st.integers(50, 1_000)),
        merged_block_bytes_max=draw(st.integers(1, 2_000)),
    )


cases = st.builds(
    Case,
    uploads=st.lists(
        st.builds(
            Upload,
            stream=st.integers(0, STREAMS - 1),
            sizes=st.lists(st.integers(90, 700), min_size=1, max_size=5),
            is_set=st.sampled_from([False, False, False, False, True]),
        ),
        min_size=1,
        max_size=14,
    ),
    trims=st.dictionaries(st.integers(0, STREAMS - 1), st.integers(1, 80), max_size=2),
    deleted=st.sets(st.integers(0, STREAMS - 1), max_size=1),
    settings=compaction_settings(),
    spread=SPREADS,
)


def built(world: CompactionWorld, case: Case) -> None:
    world.make_streams(STREAMS)
    ends = dict.fromkeys(range(STREAMS), 0)
    for upload in case.uploads:
        start = ends[upload.stream]
        blocks = [(start + 10 * at, start + 10 * at + 10, size) for at, size in enumerate(upload.sizes)]
        ends[upload.stream] = blocks[-1][1]
        if upload.is_set:
            world.upload({upload.stream: blocks})
        else:
            add_stream_object(world, upload.stream, *blocks)
    for stream, start in case.trims.items():
        world.trim(stream, start)
    for stream in case.deleted:
        world.delete_stream(stream)


def modelled(
    old: Mapping[int, bytes], sources: list[ObjectMetadata], start: int, merged_block_bytes_max: int
) -> bytes:
    """The live blocks of the sources one after another, entries of neighbours joined as long as they fit."""
    data = b""
    groups: list[list[BlockEntry]] = []
    for source in sources:
        for entry in index_of(old[source.object_id]):
            if entry.end_offset <= start:
                continue
            data += old[source.object_id][entry.position : entry.end_position]
            joined_bytes = sum(each.size_bytes for each in groups[-1]) if groups else 0
            if groups and joined_bytes + entry.size_bytes <= merged_block_bytes_max:
                groups[-1].append(entry)
            else:
                groups.append([entry])
    index: list[BlockEntry] = []
    for group in groups:
        index.append(join_blocks(group, index[-1].end_position if index else 0))
    return data + trailer_bytes(index, len(data))


@settings(max_examples=examples(60))
@given(cases)
def test_no_batch_changes_and_new_objects_are_what_the_model_makes(case: Case) -> None:
    with compaction_world(case.spread) as world:
        built(world, case)
        before = world.records()
        image = world.metadata.image
        ids = world.ids(ObjectKind.STREAM_OBJECT)
        old = {object_id: world.bytes_of(object_id) for object_id in ids}
        report = joined_up(world, case.settings)
        assert {each.outcome for each in report.units} <= {Outcome.DONE}
        assert world.records() == before
        world.assert_sound()
        after = world.metadata.image
        for stream in image.streams.values():
            found = after.streams[stream.stream_id]
            assert msgspec.structs.replace(found, ranges=stream.ranges) == stream
        new_ids = world.ids(ObjectKind.STREAM_OBJECT) - ids
        assert len(new_ids) == len(report.units)
        replaced = ids - world.ids(ObjectKind.STREAM_OBJECT)
        for object_id in new_ids:
            (held,) = after.objects[object_id].ranges
            sources = [
                image.objects[each.object_id]
                for each in image.streams[held.stream_id].ranges
                if each.object_id in replaced
                and each.end_offset > held.start_offset
                and each.start_offset < held.end_offset
            ]
            assert len(sources) >= 2
            start = image.streams[held.stream_id].start_offset
            model = modelled(old, sources, start, case.settings.merged_block_bytes_max)
            assert world.bytes_of(object_id) == model
            assert after.objects[object_id].size_bytes == len(model)
        deleted = [each for each in image.streams.values() if each.state is StreamState.DELETED]
        assert not any(
            unit.name.startswith(f"stream-{each.stream_id}-") for unit in report.units for each in deleted
        )


@settings(max_examples=examples(60))
@given(cases)
def test_it_ends(case: Case) -> None:
    """Look after look there is less to do, until there is nothing."""
    with compaction_world(case.spread) as world:
        built(world, case)
        count = len(world.ids(ObjectKind.STREAM_OBJECT))
        while joined_up(world, case.settings).units:
            fewer = len(world.ids(ObjectKind.STREAM_OBJECT))
            assert fewer < count
            count = fewer


@given(
    st.lists(st.lists(st.integers(1, 900), min_size=1, max_size=6), min_size=1, max_size=8),
    st.integers(0, 500),
    compaction_settings(),
)
def test_parts_are_the_blocks_in_order_and_stores_take_them(
    sources: list[list[int]], trimmed_bytes: int, used: StreamObjectCompactionSettings
) -> None:
    rows: list[tuple[int, int, int]] = []
    for source, sizes in enumerate(sources):
        position = 0 if source else trimmed_bytes
        for size in sizes:
            rows.append((source, position, size))
            position += size
    table = np.zeros(len(rows), dtype=ENTRY)
    table["source"], table["position"], table["size_bytes"] = np.array(rows).T
    parts = lay_out(table, b"trailer", used)

    def bytes_of(first: int, end: int) -> list[tuple[int, int]]:
        return [(source, position + at) for source, position, size in rows[first:end] for at in range(size)]

    written: list[tuple[int, int]] = []
    for number, part in enumerate(parts, start=1):
        assert (part.part_number, part.position) == (number, len(written))
        if isinstance(part, CopiedPart):
            assert used.part_bytes_min <= part.size_bytes <= used.copy_bytes_max
            written += [(part.source, at) for at in range(part.start, part.end)]
        else:
            piece = bytes_of(part.first_block, part.end_block)
            assert number == len(parts) or len(piece) >= used.part_bytes_min
            written += piece
    assert written == bytes_of(0, len(rows))
    assert [part for part in parts if not isinstance(part, CopiedPart) and part.trailer] == parts[-1:]
    if all(sum(sizes) >= used.part_bytes_min for sizes in sources):
        assert all(isinstance(part, CopiedPart) for part in parts[:-1]), "large ones are never read"


@given(
    st.lists(st.tuples(st.integers(1, 3_000), st.sampled_from([0, 10**9])), min_size=1, max_size=30),
    compaction_settings(),
)
def test_groups_keep_to_the_rules(made: list[tuple[int, int]], used: StreamObjectCompactionSettings) -> None:
    run = tuple(member(at, at, at + 1, size, committed_ms=when) for at, (size, when) in enumerate(made))
    seen = 0
    for group in groups_of(run, used, 10**9):
        first, last = group.members[0].object_id, group.members[-1].object_id
        assert group.members == run[first : last + 1] and first >= seen
        seen = last + 1
        assert 2 <= len(group.members) <= used.group_objects_max
        assert group.largest_bytes <= used.largest_share_max * group.size_bytes
        if group.level.value == "major":
            assert group.size_bytes <= used.group_bytes_max
            assert all(each.committed_ms <= 10**9 - used.settled_ms for each in group.members)
        else:
            sizes = [each.ranges[0].size_bytes for each in group.members]
            assert max(sizes) < used.small_object_bytes and sum(sizes[:-1]) < used.small_object_bytes
