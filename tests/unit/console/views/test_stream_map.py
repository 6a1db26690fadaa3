from hypothesis import given
from hypothesis import strategies as st

from siltstone.console.views.stream_map import PIECES_MAX, dead_share, piece_at, stream_map
from support.console.images import ImageBuilder


def test_wc08_each_object_is_a_piece_with_its_kind_and_its_dead_share():
    image = (
        ImageBuilder()
        .topic("a", (1, 0, 10, 100), (2, 10, 30, 300), start=10)
        .topic("b", (2, 0, 5, 100))
        .image()
    )
    drawn = stream_map(image, image.streams[0])
    assert [(each.kind, each.start_offset, each.end_offset) for each in drawn.pieces] == [
        ("trimmed", 0, 10), ("SSO", 10, 30),
    ]  # fmt: skip
    assert (drawn.first_offset, drawn.start_offset, drawn.end_offset, drawn.is_joined) == (0, 10, 30, False)
    assert drawn.pieces[0].dead_share == 1.0 and drawn.pieces[1].dead_share == 0.0


def test_bytes_of_a_stream_that_is_gone_are_dead():
    image = ImageBuilder().topic("a", (1, 0, 10, 100)).topic("b", (1, 0, 10, 300)).image()
    assert dead_share(image, 1) == 0.0
    del (draft := image.streams.draft())[1]
    assert dead_share(ImageBuilder().image(streams=draft.frozen(), objects=image.objects), 1) == 0.75
    assert dead_share(image, 77) == 0.0, "an object that is not there"


def test_the_object_of_an_offset_is_found():
    image = ImageBuilder().topic("a", (1, 0, 10, 100), (2, 10, 30, 300)).image()
    assert [piece_at(image, image.streams[0], offset).object_id for offset in (0, 9, 10, 29)] == [1, 1, 2, 2]
    assert piece_at(image, image.streams[0], 30) is None


@given(st.integers(0, 3 * PIECES_MAX + 7))
def test_a_map_has_a_bound_and_loses_no_offset(objects: int):
    ranges = [(number, number * 2, number * 2 + 2, 7) for number in range(objects)]
    image = ImageBuilder().topic("a", *ranges).image()
    drawn = stream_map(image, image.streams[0])
    assert len(drawn.pieces) <= PIECES_MAX
    assert drawn.is_joined == (objects > PIECES_MAX)
    assert sum(each.end_offset - each.start_offset for each in drawn.pieces) == 2 * objects
    assert sum(each.size_bytes for each in drawn.pieces) == 7 * objects
    assert sum(each.objects for each in drawn.pieces) == objects
    assert all(a.end_offset == b.start_offset for a, b in zip(drawn.pieces, drawn.pieces[1:], strict=False))
