import msgspec
import pytest

from siltstone.maintenance.garbage_collection.planning import (
    Estimate,
    LiveBytes,
    estimated,
    is_dead,
    live_bytes,
)
from siltstone.metadata.entities import StreamMetadata
from siltstone.offline.blocks.columns import Source, SourceUnusable
from support.maintenance.compaction_sources import Spec, source, streams_of

SPEC: Spec = {0: [(0, 10, 100), (10, 20, 50)], 1: [(0, 4, 30)]}


def served(made: Source, **facts: object) -> dict[int, StreamMetadata]:
    """Streams that list what the source holds."""
    streams = streams_of([made], **facts)  # type: ignore[arg-type]
    return {
        held.stream_id: msgspec.structs.replace(streams[held.stream_id], ranges=(held,))
        for held in made.metadata.ranges
    }


@pytest.mark.parametrize(
    ("starts", "deleted", "dead", "estimate", "live"),
    [
        ({}, (), False, (180, 0), 180),
        ({0: 5}, (), False, (30, 112.5), 180),  # the block that is cut is live as a whole
        ({0: 10}, (), False, (30, 75), 80),
        ({0: 19}, (), False, (30, 7.5), 80),
        ({0: 20}, (), False, (30, 0), 30),
        ({0: 20}, (1,), True, (0, 0), 0),
        ({0: 99, 1: 99}, (), True, (0, 0), 0),
        ({}, (0, 1), True, (0, 0), 0),
    ],
)
def test_live_by_range_and_by_block(
    starts: dict[int, int], deleted: tuple[int, ...], dead: bool, estimate: tuple[int, float], live: int
) -> None:
    made = source(7, SPEC)
    streams = served(made, starts=starts, deleted=deleted)
    assert is_dead(made.metadata, streams) is dead
    assert estimated(made.metadata, streams) == Estimate(180, *estimate)
    assert live_bytes(made, streams) == LiveBytes(180, live)
    assert live_bytes(made, streams).dead_bytes == 180 - live


def test_what_was_dead_when_it_was_committed_is_in_the_index_and_not_in_the_image() -> None:
    whole = source(7, SPEC)
    made = Source(msgspec.structs.replace(whole.metadata, ranges=whole.metadata.ranges[1:]), whole.index)
    assert live_bytes(made, served(made)) == LiveBytes(180, 30)


@pytest.mark.parametrize("what", [is_dead, estimated])
def test_an_object_that_contradicts_the_image_is_neither_dead_nor_alive(what) -> None:
    """No stream is deleted by being absent, and what a stream does not list somebody else may hold."""
    made = source(7, SPEC)
    streams = served(made)
    del streams[1]
    with pytest.raises(SourceUnusable, match="stream 1 is not in the image"):
        what(msgspec.structs.replace(made.metadata, ranges=made.metadata.ranges[1:]), streams)
    unlisted = streams_of([made], starts={0: 99, 1: 99})
    with pytest.raises(SourceUnusable, match="stream 0 does not list"):
        what(made.metadata, unlisted)
    with pytest.raises(SourceUnusable, match="does not list"):
        live_bytes(made, unlisted)


def test_what_another_object_serves_is_not_this_ones() -> None:
    """Not 'superseded, so dead': a contradiction, which the check explains."""
    made = source(7, SPEC)
    streams = served(made)
    taken = msgspec.structs.replace(made.metadata.ranges[0], object_id=8)
    streams[0] = msgspec.structs.replace(streams[0], ranges=(taken,))
    with pytest.raises(SourceUnusable, match="does not list"):
        estimated(made.metadata, streams)
