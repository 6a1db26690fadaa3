import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.metadata.commands import CloseStream, DeleteStream, TrimStream
from siltstone.metadata.decisions.coverage import check_coverage
from siltstone.metadata.refusals import CoverageNotMatched
from support.metadata.metadata_world import MetadataWorld, object_range
from support.values.examples import examples

SPAN = 12
CUTS = st.sets(st.integers(1, SPAN - 1), max_size=5)


def pieces(cuts: set[int]) -> list[tuple[int, int]]:
    edges = [0, *sorted(cuts), SPAN]
    return list(itertools.pairwise(edges))


def world_with_stream(start: int, deleted: bool) -> MetadataWorld:
    world = MetadataWorld()
    world.register(0)
    world.open_stream()
    world.do(world.upload((0, 0, SPAN)))
    if start:
        world.do(TrimStream(0, 1, 0, 0, start))
    if deleted:
        world.do(CloseStream(0, 1, 0, 0))
        world.do(DeleteStream(0, 1, 0, 0))
    return world


@settings(max_examples=examples(400))
@given(data=st.data(), start=st.integers(0, SPAN), deleted=st.booleans(), cuts=CUTS)
def test_agrees_with_counting_every_offset(data, start, deleted, cuts) -> None:
    held = data.draw(st.lists(st.sampled_from(pieces(cuts)), unique=True, min_size=1))
    offsets = {offset for left, right in held for offset in range(left, right)}
    # Near the answer: pieces of what is held, some dropped, sometimes one stretched or doubled.
    finer = pieces(cuts | data.draw(CUTS))
    inside = [piece for piece in finer if set(range(*piece)) <= offsets]
    new = [piece for piece in inside if data.draw(st.integers(0, 9))]
    if data.draw(st.integers(0, 3)) == 0:
        left = data.draw(st.integers(0, SPAN - 1))
        new.append((left, data.draw(st.integers(left + 1, SPAN))))

    counts = {offset: sum(left <= offset < right for left, right in new) for offset in range(SPAN)}
    live = set() if deleted else {offset for offset in offsets if offset >= start}
    right = (
        all(counts[offset] == 1 for offset in live)
        and all(count <= 1 for count in counts.values())
        and all(offset in offsets for offset, count in counts.items() if count)
    )

    world = world_with_stream(start, deleted)
    try:
        check_coverage(
            world.image,
            [object_range(0, 0, *piece) for piece in held],
            [object_range(1, 0, *piece) for piece in new],
        )
        accepted = True
    except CoverageNotMatched:
        accepted = False
    assert accepted == right
