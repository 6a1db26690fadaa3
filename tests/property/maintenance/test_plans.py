"""Plans of random sources against a slow, plain model of the algorithm of AutoMQ (T01 to T07), and the
properties every plan has."""

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.maintenance.stream_set_compaction.planner import choose_candidates, plan_compaction
from siltstone.metadata.entities import StreamMetadata
from siltstone.model.objects import ObjectKind
from siltstone.offline.blocks.columns import ENTRY, Source
from siltstone.offline.settings import CompactionSettings
from support.maintenance.compaction_sources import NOW_MS, SMALL, Spec, source, streams_of
from support.values.examples import examples

Block = tuple[int, int, int, int, int]
"""(stream, start, end, bytes, object id)"""


class Case(msgspec.Struct, frozen=True):
    specs: list[Spec]
    ages: list[int]
    starts: dict[int, int]
    deleted: set[int]
    settings: CompactionSettings

    @property
    def sources(self) -> list[Source]:
        return [source(at, spec, NOW_MS - self.ages[at]) for at, spec in enumerate(self.specs)]

    @property
    def streams(self) -> dict[int, StreamMetadata]:
        return streams_of(self.sources, self.starts, self.deleted)

    def plan(self) -> CompactionPlan:
        return plan_compaction(self.sources, self.streams, self.settings, NOW_MS)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Streams written in turns by several objects, one range of each stream an object, with gaps here and there."""
    count = draw(st.integers(1, 6))
    specs: list[dict[int, list[tuple[int, int, int]]]] = [{} for _ in range(count)]
    starts: dict[int, int] = {}
    for stream in range(draw(st.integers(1, 5))):
        offset = 0
        for spec in draw(st.permutations(specs)):
            offset += draw(st.sampled_from([0, 0, 0, 7]))
            for _ in range(draw(st.integers(0, 3))):
                records, size = draw(st.integers(1, 9)), draw(st.integers(1, 40))
                spec.setdefault(stream, []).append((offset, offset + records, size))
                offset += records
        starts[stream] = draw(st.integers(0, max(1, offset // 2)))
    part_bytes_min = draw(st.integers(1, 30))
    limits = msgspec.structs.replace(
        SMALL,
        split_size_bytes=draw(st.integers(0, 120)),
        memory_bytes=draw(st.integers(40 + part_bytes_min, 200)),
        part_bytes_min=part_bytes_min,
        merged_block_bytes_max=draw(st.integers(1, 100)),
        stream_objects_max=draw(st.sampled_from([3, 1000])),
        streams_max=draw(st.sampled_from([2, 1000])),
        force_split_age_ms=1000,
    )
    ages = [draw(st.sampled_from([0, 0, 0, 1000])) for _ in specs]
    return Case(list(specs), ages, starts, draw(st.sets(st.integers(0, 4), max_size=1)), limits)


def live_blocks(case: Case, numbers: Sequence[int]) -> list[Block]:
    return sorted(
        (stream, start, end, size, number)
        for number in numbers
        for stream, blocks in case.specs[number].items()
        for start, end, size in blocks
        if stream not in case.deleted and end > case.starts[stream]
    )


def outputs(plan: CompactionPlan) -> list[tuple[int, list[tuple[int, int, int]]]]:
    """(object number, its blocks as (stream, start, end)) as the iterations write them."""
    written: dict[int, list[tuple[int, int, int]]] = {}
    for at in range(len(plan.bounds)):
        iteration = plan.iteration(at)
        blocks = np.frombuffer(iteration.blocks, dtype=ENTRY)
        spans = [(piece.number, piece.first_block, piece.end_block) for piece in iteration.stream_objects]
        if iteration.part is not None:
            spans.append((0, iteration.part.first_block, iteration.part.end_block))
        for number, first, end in spans:
            keys = blocks[["stream_id", "start_offset", "end_offset"]][first:end].tolist()
            written.setdefault(number, []).extend(keys)
    return sorted(written.items())


def plain_runs(blocks: list[Block]) -> list[list[Block]]:
    runs: list[list[Block]] = []
    for block in blocks:
        if runs and runs[-1][-1][0] == block[0] and runs[-1][-1][2] == block[1]:
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs


def plain_iterations(case: Case, blocks: list[Block]) -> list[list[tuple[bool, list[Block]]]]:
    """Step 9 and step 11, word by word, without small parts: builders, cut at the first block that does not fit."""
    runs = plain_runs(blocks)
    builders = []
    for at, run in enumerate(runs):
        gap = at + 1 < len(runs) and runs[at + 1][0][0] == run[0][0]
        builders.append((gap or sum(block[3] for block in run) > case.settings.split_size_bytes, run))
    made: list[list[tuple[bool, list[Block]]]] = [[]]
    total = 0
    for split, run in builders:
        piece: list[Block] = []
        for block in run:
            if total + block[3] > case.settings.memory_bytes:
                if piece:
                    made[-1].append((split, piece))
                made.append([])
                piece, total = [], 0
            piece.append(block)
            total += block[3]
        made[-1].append((split, piece))
    return [iteration for iteration in made if iteration]


@settings(max_examples=examples(120))
@given(cases())
def test_every_live_block_is_written_exactly_once(case: Case) -> None:
    plan = case.plan()
    written = sorted(block for _, blocks in outputs(plan) for block in blocks)
    assert written == [block[:3] for block in live_blocks(case, plan.compacted_ids)]
    untouched = {each.object_id for each in plan.left_out}
    assert untouched | set(plan.compacted_ids) == set(range(len(case.specs)))
    assert not untouched & set(plan.compacted_ids)


@settings(max_examples=examples(120))
@given(cases())
def test_limits_hold_in_every_iteration(case: Case) -> None:
    plan = case.plan()
    parts = []
    for at in range(len(plan.bounds)):
        iteration = plan.iteration(at)
        assert iteration.reads, "an iteration that does nothing"
        assert iteration.bytes_read <= case.settings.memory_bytes
        if (part := iteration.part) is not None:
            sizes = np.frombuffer(iteration.blocks, dtype=ENTRY)["size_bytes"]
            parts.append(
                (part.part_number, part.position, int(sizes[part.first_block : part.end_block].sum()))
            )
    assert [number for number, _, _ in parts] == list(range(1, len(parts) + 1))
    ends = [0, *accumulate(size for _, _, size in parts)]
    assert [position for _, position, _ in parts] == ends[:-1]
    assert all(size >= case.settings.part_bytes_min for _, _, size in parts[:-1])
    assert len(plan.pieces) <= case.settings.stream_objects_max


@settings(max_examples=examples(120))
@given(cases())
def test_new_objects_are_sorted_contiguous_and_as_large_as_said(case: Case) -> None:
    plan = case.plan()
    sets, stream_objects = plan.new_objects(0)
    written = dict(outputs(plan))
    if sets is not None:
        assert len(sets.ranges) <= case.settings.streams_max
        streams = [held.stream_id for held in sets.ranges]
        assert streams == sorted(set(streams)), "one range of each stream"
        assert written[0] == sorted(written[0])
    for new in (*stream_objects, *((sets,) if sets else ())):
        spans = [
            (stream, [*blocks])
            for stream, blocks in groupby(written[new.object_id], key=lambda block: block[0])
        ]
        assert [stream for stream, _ in spans] == [held.stream_id for held in new.ranges]
        for held, (_, blocks) in zip(new.ranges, spans, strict=True):
            assert all(first[2] == second[1] for first, second in pairwise(blocks))
            assert (blocks[0][1], blocks[-1][2]) == (held.start_offset, held.end_offset)
    assert (
        sum(held.size_bytes for new in stream_objects for held in new.ranges)
        + (sum(held.size_bytes for held in sets.ranges) if sets else 0)
        == plan.live_bytes
    )


@settings(max_examples=examples(120))
@given(cases())
def test_the_plan_is_the_plain_rules_plan(case: Case) -> None:
    """Without age, limits and small parts, the columns cut exactly where the rule of the article does."""
    plain = msgspec.structs.replace(
        case,
        ages=[0] * len(case.specs),
        settings=msgspec.structs.replace(
            case.settings, part_bytes_min=1, stream_objects_max=1000, streams_max=1000
        ),
    )
    plan = plain.plan()
    expected = plain_iterations(plain, live_blocks(plain, plan.compacted_ids))
    objects = dict(outputs(plan))
    made = []
    for at in range(len(plan.bounds)):
        iteration = plan.iteration(at)
        blocks = np.frombuffer(iteration.blocks, dtype=ENTRY)[
            ["stream_id", "start_offset", "end_offset"]
        ].tolist()
        part = iteration.part
        small = blocks[part.first_block : part.end_block] if part else []
        made.append((sorted(objects[piece.number] for piece in iteration.stream_objects), small))
    assert made == [
        (
            sorted([block[:3] for block in run] for split, run in iteration if split),
            [block[:3] for split, run in iteration if not split for block in run],
        )
        for iteration in expected
    ]


@settings(max_examples=examples(120))
@given(cases(), st.integers(70, 400))
def test_the_memory_limit_changes_the_cut_and_nothing_else(case: Case, memory_bytes: int) -> None:
    roomy = msgspec.structs.replace(case.settings, stream_objects_max=1000)
    plans = [
        msgspec.structs.replace(case, settings=msgspec.structs.replace(roomy, memory_bytes=limit)).plan()
        for limit in (memory_bytes, 10_000)
    ]
    first, second = (sorted(block for _, blocks in outputs(plan) for block in blocks) for plan in plans)
    assert first == second
    assert plans[0].compacted_ids == plans[1].compacted_ids
    sets = [plan.new_objects(0)[0] for plan in plans]
    assert sets[0] == sets[1], "what is small does not depend on the cut"


@settings(max_examples=examples(120))
@given(cases())
def test_planning_again_over_the_result_yields_nothing(case: Case) -> None:
    """Unless a limit left something out, and until the new object is old."""
    roomy = msgspec.structs.replace(case.settings, stream_objects_max=1000, streams_max=1000)
    case = msgspec.structs.replace(case, settings=roomy)
    plan = case.plan()
    sets, _ = plan.new_objects(100)
    left = [one for one in case.sources if one.metadata.object_id not in plan.compacted_ids]
    after = [one.metadata for one in left]
    if sets is not None:
        after.append(
            msgspec.structs.replace(
                case.sources[0].metadata,
                object_id=100,
                ranges=sets.ranges,
                data_time_ms=NOW_MS,
                kind=ObjectKind(1),
            )
        )
    assert choose_candidates(after, case.streams, case.settings, NOW_MS).objects == ()
