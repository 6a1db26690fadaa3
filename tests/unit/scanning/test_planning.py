"""Cuts and pieces from images made by hand; every row of a plan is one of its offsets, once."""

import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from siltstone.metadata.entities import (
    ObjectMetadata,
    PartitionMetadata,
    StreamMetadata,
    StreamState,
    TopicMetadata,
)
from siltstone.model.limits import GIB, MIB
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState
from siltstone.scanning import planning
from siltstone.scanning.failures import (
    DataLost,
    OffsetBeyondEnd,
    RangeNotCovered,
    ScanRefused,
    TopicNotThere,
)
from siltstone.scanning.planning import (
    ScanPartition,
    cut,
    plan_pieces,
    renewed,
    wanted_partitions,
)
from siltstone.scanning.request import ScanRequest, TimeRange
from siltstone.scanning.unit import ScanPiece

Held = tuple[int, int, int, int]
"""Object id, start, end, bytes."""


def image_of(
    topics: dict[str, list[list[Held]]], start_offset: int = 0, internal: tuple[str, ...] = ()
) -> Any:
    """Topics with the ranges of each partition. Objects below 100 are stream set objects."""
    streams, objects, found = {}, {}, {}
    for number, (name, partitions) in enumerate(topics.items()):
        ids = []
        for partition, held in enumerate(partitions):
            stream_id = number * 1000 + partition
            ranges = tuple(ObjectRange(stream_id, each[0], each[1], each[2], each[3], 0) for each in held)
            end = ranges[-1].end_offset if ranges else 0
            streams[stream_id] = StreamMetadata(
                stream_id, StreamState.CLOSED, 0, 1, start_offset, end, (), ranges, {}
            )
            for object_id, _, _, size in held:
                kind = ObjectKind.STREAM_SET_OBJECT if object_id < 100 else ObjectKind.STREAM_OBJECT
                objects[object_id] = ObjectMetadata(
                    object_id, ObjectState.COMMITTED, 0, kind, size + 200, 0, 0, 0, 0, ()
                )
            ids.append(PartitionMetadata(stream_id, stream_id + 500))
        topic_id = f"{number:032x}"
        found[topic_id] = TopicMetadata(topic_id, name, tuple(ids), {}, 1, 0, name in internal)
    topic_ids = {topic.name: topic_id for topic_id, topic in found.items()}
    return SimpleNamespace(streams=streams, objects=objects, topics=found, topic_ids=topic_ids, keys={})


def pieces_of(image: Any, **wanted: Any) -> tuple[tuple[ScanPiece, ...], ...]:
    request = ScanRequest(pattern=".*", **wanted)
    return plan_pieces(image, whole_cuts(image, request), request).units


def whole_cuts(image: Any, request: ScanRequest) -> list[planning.Cut]:
    return [
        cut(
            each,
            each.start_offset,
            each.committed_offset,
            end_offset=each.committed_offset,
            fail_on_data_loss=True,
        )
        for each in wanted_partitions(image, request)
    ]


def one(start: int = 0, end: int = 100) -> ScanPartition:
    image = image_of({"flights": [[(100, start, end, 1000)]]}, start_offset=start)
    return wanted_partitions(image, ScanRequest(topics=("flights",)))[0]


def offsets_of(units: tuple[tuple[ScanPiece, ...], ...]) -> list[tuple[str, int]]:
    return [
        (piece.name, offset)
        for unit in units
        for piece in unit
        for offset in range(piece.start_offset, piece.end_offset)
    ]


# -- which partitions


def test_sr25_a_pattern_matches_whole_names_and_never_internal_topics() -> None:
    image = image_of(
        {name: [[]] for name in ("trips", "tours", "xt", "__consumer_offsets")},
        internal=("__consumer_offsets",),
    )
    found = wanted_partitions(image, ScanRequest(pattern="t.*"))
    assert [each.name for each in found] == ["tours-0", "trips-0"]
    assert len(wanted_partitions(image, ScanRequest(pattern=".*"))) == 3
    with pytest.raises(ScanRefused, match="not a regular expression"):
        wanted_partitions(image, ScanRequest(pattern="t("))


def test_assigned_partitions_and_those_left_out() -> None:
    image = image_of({"a": [[], [], []], "b": [[]]})
    assert [each.key for each in wanted_partitions(image, ScanRequest(assigned={"a": (2, 0)}))] == [
        ("a", 0),
        ("a", 2),
    ]
    found = wanted_partitions(image, ScanRequest(topics=("a",), partitions=(1,)))
    assert [each.key for each in found] == [("a", 1)]


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (ScanRequest(topics=("c",)), "no topic 'c': it has a, b"),
        (ScanRequest(assigned={"a": (3,)}), "topic a has no partition 3: it has 3"),
        (ScanRequest(assigned={"a": (-1,)}), "topic a has no partition -1: it has 3"),
        (ScanRequest(topics=("a",), partitions=(7,)), "topic a has no partition 7"),
    ],
)
def test_what_is_not_there_is_named(request_: ScanRequest, named: str) -> None:
    with pytest.raises(TopicNotThere, match=named):
        wanted_partitions(image_of({"a": [[], [], []], "b": [[]]}), request_)


def test_partitions_are_settled_once_and_read_again_from_a_newer_image() -> None:
    """Between the two images the scan's pin is put. A topic that was made again in between has another id."""
    settled = wanted_partitions(image_of({"a": [[], []], "b": [[]]}), ScanRequest(topics=("a",)))
    newer = image_of({"a": [[(100, 0, 7, 1000)], []], "b": [[]]})
    assert [(each.name, each.committed_offset) for each in renewed(newer, settled)] == [
        ("a-0", 7),
        ("a-1", 0),
    ]
    del newer.topics[settled[0].topic.topic_id]
    with pytest.raises(TopicNotThere, match="topic a was deleted while the scan was planned"):
        renewed(newer, settled)


# -- times


def timed(validation: str = "") -> Any:
    """Topic flights; its first object has no record after 50 ms, its second none after 150 ms."""
    image = image_of({"flights": [[(100, 0, 10, 10), (101, 10, 20, 10)]]})
    (stream,) = image.streams.values()
    ranges = zip(stream.ranges, (50, 150), strict=True)
    timed_ranges = tuple(replace(held, largest_timestamp_ms=newest) for held, newest in ranges)
    image.streams = {stream.stream_id: replace(stream, ranges=timed_ranges)}
    (topic,) = image.topics.values()
    configs = {"siltstone.record.validation": validation} if validation else {}
    image.topics = {topic.topic_id: replace(topic, configs=configs)}
    return image


@pytest.mark.parametrize(
    ("validation", "times", "believed"),
    [
        ("", None, None),
        ("full", None, None),
        ("full", TimeRange(None, 60), None),
        ("", TimeRange(60, None), None),
        ("headers", TimeRange(60, None), None),
        ("", TimeRange(60, None, trusts_batches=True), 60),
        ("full", TimeRange(60, None), 60),
    ],
)
def test_sr24_objects_that_are_too_old_are_passed_over_where_their_times_are_believed(
    validation: str, times: TimeRange | None, believed: int | None
) -> None:
    image = timed(validation)
    (unit,) = pieces_of(image, times=times)
    assert [piece.object_id for piece in unit] == ([101] if believed else [100, 101])
    assert {piece.passed_over_ms for piece in unit} == {believed}


def test_sr24_an_object_whose_newest_record_is_at_the_time_is_read() -> None:
    for from_ms, objects in ((50, [100, 101]), (51, [101]), (150, [101]), (151, [])):
        units = pieces_of(timed("full"), times=TimeRange(from_ms, None))
        assert [piece.object_id for unit in units for piece in unit] == objects


# -- data loss


def test_sr12_a_start_below_the_first_offset_is_an_error_or_a_warning_with_the_count() -> None:
    with pytest.raises(
        DataLost, match=r"flights-0: .* from 20 on, but the partition begins at 50: 30 offsets"
    ):
        cut(one(50), 20, 100, end_offset=100, fail_on_data_loss=True)
    found = cut(one(50), 20, 100, end_offset=100, fail_on_data_loss=False)
    assert (found.start_offset, found.end_offset) == (50, 100)
    assert "30 offsets were removed" in found.warning


@pytest.mark.parametrize(("start", "end"), [(0, 101), (101, 101), (150, 50)])
def test_an_end_beyond_the_end_is_an_error_or_the_end(start: int, end: int) -> None:
    with pytest.raises(OffsetBeyondEnd, match="ends at 100"):
        cut(one(), start, end, end_offset=100, fail_on_data_loss=True)
    found = cut(one(), start, end, end_offset=100, fail_on_data_loss=False)
    assert (found.start_offset, found.end_offset) == (min(start, 100), 100)
    assert "ends at 100" in found.warning


def test_a_cut_beyond_what_is_in_objects_has_a_tail() -> None:
    found = cut(one(), 40, 130, end_offset=130, fail_on_data_loss=True)
    assert (found.committed_end, found.end_offset, found.has_tail) == (100, 130, True)
    later = cut(one(), 120, 130, end_offset=130, fail_on_data_loss=True)
    assert (later.committed_end, later.has_tail) == (120, True)
    assert not cut(one(), 40, 100, end_offset=130, fail_on_data_loss=True).has_tail


# -- units


def test_sr14_a_large_object_becomes_units_that_are_disjoint_and_cover_it() -> None:
    image = image_of({"flights": [[(100, 0, 1_000_003, GIB)]]})
    units = pieces_of(image)
    assert len(units) == 16
    places = [(piece.start_offset, piece.end_offset) for unit in units for piece in unit]
    assert [end for _, end in places[:-1]] == [start for start, _ in places[1:]]
    assert (places[0][0], places[-1][1]) == (0, 1_000_003)
    assert sum(piece.size_bytes for unit in units for piece in unit) == GIB
    assert max(piece.size_bytes for unit in units for piece in unit) <= 64 * MIB


def test_small_pieces_are_joined_and_those_of_one_object_lie_side_by_side() -> None:
    shared = [[(7, 0, 10, 20), (8, 10, 20, 20)], [(7, 0, 5, 20), (8, 5, 9, 20)]]
    image = image_of({"flights": shared})
    (unit,) = pieces_of(image)
    assert [(piece.partition, piece.object_id) for piece in unit] == [(0, 7), (0, 8), (1, 7), (1, 8)]
    (by_object,) = pieces_of(image, by_object=True)
    assert [(piece.partition, piece.object_id) for piece in by_object] == [(0, 7), (1, 7), (0, 8), (1, 8)]
    assert [len(unit) for unit in pieces_of(image, unit_bytes_max=40)] == [2, 2]
    mixed = image_of({"flights": [[(100, 0, 5, 20), (7, 5, 10, 20)], [(101, 0, 5, 20), (7, 5, 9, 20)]]})
    (by_object,) = pieces_of(mixed, by_object=True)
    assert [piece.object_id for piece in by_object] == [7, 7, 100, 101], (
        "those that several partitions share first"
    )


def test_sr16_at_least_the_wanted_units_and_at_most_the_wanted_records() -> None:
    image = image_of({"flights": [[(100, 0, 1_000, 10_000)]]})
    assert len(pieces_of(image, units_min=10)) >= 10
    units = pieces_of(image, unit_offsets_max=100)
    assert len(units) == 10
    assert all(sum(piece.end_offset - piece.start_offset for piece in unit) <= 100 for unit in units)


def test_more_units_than_there_are_bytes_have_a_byte_each() -> None:
    image = image_of({"flights": [[(100, 0, 1_000, 10)]]})
    assert len(pieces_of(image, units_min=50)) == 10


def test_limits_are_doubled_until_the_units_are_few_enough() -> None:
    image = image_of({"flights": [[(100, 0, 1_000, 1_000)]]})
    for limits, count in (({"unit_bytes_max": 7}, 18), ({"unit_offsets_max": 7}, 18)):
        request = ScanRequest(topics=("flights",), **limits)
        planned = plan_pieces(image, whole_cuts(image, request), request, units_max=20)
        assert len(planned.units) == count, "of 56 bytes or offsets, eight times 7"


def test_as_many_units_as_there_may_be_are_no_cause_for_a_warning() -> None:
    image = image_of({"flights": [[(100, 0, 1_000, 1_000)]]})
    request = ScanRequest(topics=("flights",), unit_bytes_max=50)
    planned = plan_pieces(image, whole_cuts(image, request), request, units_max=20)
    assert (len(planned.units), planned.warning) == (20, "")


def test_a_cut_without_offsets_has_no_piece() -> None:
    image = image_of({"flights": [[(100, 0, 50, 10), (101, 50, 100, 10)]]})
    request = ScanRequest(topics=("flights",))
    (partition,) = wanted_partitions(image, request)
    for offset in (0, 20, 50, 100):
        empty = cut(partition, offset, offset, end_offset=100, fail_on_data_loss=True)
        assert plan_pieces(image, [empty], request).units == ()


def test_there_are_never_more_units_than_the_driver_can_hold() -> None:
    image = image_of({"flights": [[(100, 0, 1_000, 1_000)]]})
    request = ScanRequest(topics=("flights",), unit_bytes_max=1)
    planned = plan_pieces(image, whole_cuts(image, request), request, units_max=20)
    assert len(planned.units) <= 20
    assert "more than 20 units of 1 bytes" in planned.warning
    assert len(offsets_of(planned.units)) == 1_000


@given(st.integers(0, 2**32))
def test_every_offset_of_a_cut_is_in_one_piece(seed: int) -> None:
    chance = random.Random(seed)
    partitions: list[list[Held]] = []
    for partition in range(chance.randrange(1, 4)):
        held, offset = [], 0
        for number in range(chance.randrange(5)):
            end = offset + chance.randrange(1, 30)
            object_id = number if chance.random() < 0.5 else 100 + 10 * partition + number
            held.append((object_id, offset, end, chance.randrange(1, 500)))
            offset = end
        partitions.append(held)
    image = image_of({"flights": partitions})
    request = ScanRequest(
        pattern=".*",
        unit_bytes_max=chance.randrange(1, 600),
        unit_offsets_max=chance.choice([0, 1, 7]),
        units_min=chance.choice([0, 3]),
        by_object=chance.random() < 0.5,
    )
    cuts, expected = [], []
    for each in wanted_partitions(image, request):
        start, end = sorted(chance.randrange(each.committed_offset + 1) for _ in range(2))
        cuts.append(cut(each, start, end, end_offset=each.committed_offset, fail_on_data_loss=True))
        expected += [(each.name, offset) for offset in range(start, end)]
    found = offsets_of(plan_pieces(image, cuts, request).units)
    assert sorted(found) == sorted(expected)
    if not request.by_object:
        assert found == expected


def test_offsets_that_no_object_holds_are_an_error_and_no_shorter_plan() -> None:
    image = image_of({"flights": [[(100, 0, 50, 10), (101, 60, 100, 10)]]})
    with pytest.raises(RangeNotCovered, match="offset 50 of flights-0, which ends at 100"):
        pieces_of(image)
    image = image_of({"flights": [[(100, 0, 50, 10), (101, 50, 100, 10)]]})
    del image.objects[101]
    with pytest.raises(RangeNotCovered, match="offset 50"):
        pieces_of(image)
