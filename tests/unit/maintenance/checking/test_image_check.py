"""Images built by hand: most of these contradictions no command can make, and they are to be found all the same."""

from collections.abc import Iterable, Sequence

import pytest

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.maintenance.checking.findings import Finding, FindingKind
from siltstone.maintenance.checking.image_check import check_object_ranges, check_streams
from siltstone.metadata.commands import CloseStream, DeleteStream, TrimStream
from siltstone.metadata.entities import ObjectMetadata, StreamMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectKind, ObjectRange, ObjectState
from support.metadata.metadata_world import MetadataWorld, object_range

Span = tuple[int, int, int]
"""Object id, start, end."""


def stream(
    spans: Iterable[Span], start: int, end: int, stream_id: int = 0, state: StreamState = StreamState.OPENED
) -> StreamMetadata:
    ranges = tuple(object_range(object_id, stream_id, first, last) for object_id, first, last in spans)
    return StreamMetadata(stream_id, state, 0, 0, start, end, (), ranges, {})


def committed(
    object_id: int, *ranges: ObjectRange, state: ObjectState = ObjectState.COMMITTED
) -> ObjectMetadata:
    return ObjectMetadata(object_id, state, 0, ObjectKind.STREAM_SET_OBJECT, 100, 0, 1, 0, 1, ranges)


def image_of(
    streams: Sequence[StreamMetadata], objects: Sequence[ObjectMetadata] | None = None
) -> MetadataImage:
    """``objects`` None: those that the streams name, with just the ranges that the streams name."""
    if objects is None:
        held = sorted((one for each in streams for one in each.ranges), key=lambda one: one.stream_id)
        ids = {one.object_id for one in held}
        objects = [committed(each, *(one for one in held if one.object_id == each)) for each in ids]
    return MetadataImage(
        streams=ShardedMap((each.stream_id, each) for each in streams),
        objects=ShardedMap((each.object_id, each) for each in objects),
    )


def found(image: MetadataImage) -> list[Finding]:
    return [*check_streams(image), *check_object_ranges(image)]


def said(image: MetadataImage) -> list[tuple[FindingKind, str]]:
    return [(finding.kind, finding.text) for finding in found(image)]


HOLE, OVERLAP = FindingKind.OFFSETS_NOT_COVERED, FindingKind.RANGES_OVERLAP


@pytest.mark.parametrize(
    ("spans", "start", "end"),
    [
        ([], 0, 0),
        ([], 7, 7),
        ([(0, 0, 10)], 0, 10),
        ([(0, 0, 10), (1, 10, 20)], 0, 20),
        ([(0, 0, 10), (1, 10, 20)], 4, 20),
        ([(0, 0, 10), (1, 10, 20)], 10, 20),
        ([(0, 0, 10), (1, 10, 20)], 15, 20),
        ([(0, 0, 10), (1, 10, 20)], 20, 20),
        ([(0, 0, 10)], 30, 30),
        ([(0, 0, 10), (1, 25, 40)], 30, 40),
        ([(0, 0, 10), (1, 20, 40)], 20, 40),
        ([(5, 0, 2**62), (4, 2**62, 2**63)], 0, 2**63),
    ],
    ids=lambda value: str(value).replace(" ", ""),
)
def test_rule_3_kept(spans: list[Span], start: int, end: int) -> None:
    """Among them: starts inside a range, at a border, at the end; trims past the committed end; what a trim left
    uncovered below the start."""
    assert said(image_of([stream(spans, start, end)])) == []


@pytest.mark.parametrize(
    ("spans", "start", "end", "holes"),
    [
        ([], 0, 1, [(0, 1)]),
        ([(0, 1, 10)], 0, 10, [(0, 1)]),
        ([(0, 0, 9)], 0, 10, [(9, 10)]),
        ([(0, 0, 10), (1, 11, 20)], 0, 20, [(10, 11)]),
        ([(0, 0, 10), (1, 12, 20)], 11, 20, [(11, 12)]),
        ([(0, 5, 10), (1, 12, 20)], 0, 30, [(0, 5), (10, 12), (20, 30)]),
        ([(0, 0, 10)], 10, 20, [(10, 20)]),
        ([(0, 0, 10)], 15, 20, [(15, 20)]),
    ],
)
def test_holes(spans: list[Span], start: int, end: int, holes: list[tuple[int, int]]) -> None:
    """An end offset beyond what is committed is one as well: offsets are given away by a commit alone."""
    expected = [(HOLE, f"stream 3: no object holds [{first}, {last})") for first, last in holes]
    image = image_of([stream(spans, start, end, stream_id=3)])
    assert said(image) == expected
    assert {finding.stream_id for finding in found(image)} == {3}


@pytest.mark.parametrize(
    ("spans", "overlapping"),
    [
        ([(0, 0, 10), (1, 9, 20)], [(1, 9, 20)]),
        ([(0, 0, 20), (1, 5, 10)], [(1, 5, 10)]),
        ([(0, 0, 20), (1, 5, 10), (2, 15, 30)], [(1, 5, 10), (2, 15, 30)]),
        ([(0, 0, 10), (1, 0, 10), (2, 10, 20)], [(1, 0, 10)]),
        ([(1, 10, 20), (0, 0, 10)], [(0, 0, 10)]),
    ],
)
def test_overlaps_and_disorder(spans: list[Span], overlapping: list[Span]) -> None:
    end = max(last for _, _, last in spans)
    findings = [each for each in found(image_of([stream(spans, 0, end)])) if each.kind is OVERLAP]
    assert [(each.object_id, each.text) for each in findings] == [
        (object_id, f"stream 0: [{start}, {last}) of object {object_id} overlaps what is before it")
        for object_id, start, last in overlapping
    ]


def test_an_overlap_below_the_start_offset_is_told_and_hides_no_hole() -> None:
    image = image_of([stream([(0, 0, 10), (1, 5, 12), (2, 20, 30)], 12, 30)])
    assert [each.kind for each in found(image)] == [OVERLAP, HOLE]


def test_a_deleted_stream_needs_no_coverage_but_its_ranges_still_lie_in_objects() -> None:
    deleted = stream([(0, 0, 10), (1, 20, 30)], 0, 99, state=StreamState.DELETED)
    assert said(image_of([deleted])) == []
    without = image_of([deleted], [committed(0, deleted.ranges[0])])
    assert [(each.kind, each.object_id) for each in found(without)] == [(FindingKind.RANGE_OF_NO_OBJECT, 1)]


@pytest.mark.parametrize("state", [ObjectState.PREPARED, ObjectState.DESTROYED, None])
def test_a_range_of_no_committed_object(state: ObjectState | None) -> None:
    one = stream([(0, 0, 10)], 0, 10)
    objects = [] if state is None else [committed(0, state=state)]
    (finding,) = found(image_of([one], objects))
    assert (finding.kind, finding.stream_id, finding.object_id) == (FindingKind.RANGE_OF_NO_OBJECT, 0, 0)
    assert finding.text == "stream 0: [0, 10) is said to lie in object 0, which is not committed"


@pytest.mark.parametrize("own", [(), (object_range(0, 0, 0, 9),), (object_range(0, 1, 0, 10),)])
def test_a_range_that_its_object_does_not_hold(own: tuple[ObjectRange, ...]) -> None:
    """The stream's list is what readers go by, the object's ranges are what is compared with its index."""
    streams = [stream([(0, 0, 10)], 0, 10), stream([(0, 0, 10)], 0, 10, stream_id=1)]
    image = image_of(streams[:1], [committed(0, *own)])
    finding = found(image)[0]
    assert (finding.kind, finding.stream_id, finding.object_id) == (FindingKind.RANGE_OF_NO_OBJECT, 0, 0)
    assert finding.text.endswith("said to lie in object 0, whose own ranges do not say so")


def test_a_range_of_another_size_than_its_object_says() -> None:
    image = image_of([stream([(0, 0, 10)], 0, 10)], [committed(0, object_range(0, 0, 0, 10, bytes_each=11))])
    assert [each.kind for each in found(image)] == [
        FindingKind.RANGE_OF_NO_OBJECT,
        FindingKind.RANGE_NOT_LISTED,
    ]


def test_a_range_that_stands_in_no_list() -> None:
    """It would come back to nobody, and nothing would be known to be dead by it."""
    image = image_of(
        [stream([(1, 0, 10)], 0, 10)],
        [committed(0, object_range(0, 0, 0, 10)), committed(1, object_range(1, 0, 0, 10))],
    )
    (finding,) = found(image)
    assert (finding.kind, finding.stream_id, finding.object_id) == (FindingKind.RANGE_NOT_LISTED, 0, 0)
    assert finding.text == "object 0 holds [0, 10) of stream 0, whose list does not have it"


def test_a_range_of_a_stream_that_nobody_knows() -> None:
    (finding,) = found(image_of([], [committed(4, object_range(4, 9, 5, 6))]))
    assert (finding.kind, finding.stream_id, finding.object_id) == (FindingKind.STREAM_MISSING, 9, 4)
    assert (
        finding.text
        == "object 4 holds [5, 6) of stream 9, which the metadata does not know and no record deleted"
    )


def test_objects_of_many_streams_and_streams_of_many_objects() -> None:
    """Each range is found on the other side, at any place in the list."""
    streams = [
        stream([(n, 10 * n, 10 * n + 10) for n in range(20)], 0, 200, stream_id) for stream_id in range(20)
    ]
    image = image_of(streams)
    assert said(image) == []
    for at in (0, 7, 19):
        short = streams[at].ranges[:at] + streams[at].ranges[at + 1 :]
        broken = [*streams[:at], stream([], 0, 0, at), *streams[at + 1 :]]
        broken[at] = StreamMetadata(at, StreamState.OPENED, 0, 0, 0, 200, (), short, {})
        findings = found(image_of(broken, list(image.objects.values())))
        assert [(each.kind, each.stream_id) for each in findings] == [
            (HOLE, at),
            (FindingKind.RANGE_NOT_LISTED, at),
        ]
        assert findings[1].object_id == at


def test_what_commands_make_contradicts_nothing() -> None:
    """Trims inside, to and past the end; a commit across a trim; a deleted stream whose ranges stay; a compaction."""
    world = MetadataWorld()
    world.register(0)
    for _ in range(3):
        world.open_stream()
    world.do(world.upload((0, 0, 10), (1, 0, 10), (2, 0, 10)))
    world.do(world.upload((0, 10, 20), (2, 10, 20), alone=((1, 10, 20),)))
    assert said(world.image) == []
    for stream_id, start in ((0, 5), (1, 20), (2, 33)):
        world.do(TrimStream(0, 1, stream_id, 0, start))
        assert said(world.image) == []
    world.do(world.upload((2, 20, 40)))
    world.do(CloseStream(0, 1, 1, 0))
    world.do(DeleteStream(0, 1, 1, 0))
    assert world.image.streams[1].ranges, "in the first stream set object"
    assert said(world.image) == []
    job_id = world.start_job()
    world.do(world.compaction(job_id, (0, 1), (0, 0, 20)))
    assert said(world.image) == [] and 1 not in world.image.streams
