from siltstone.maintenance.key_compaction.planning.planner import (
    Prefix,
    bytes_between,
    prefix_of,
    uncleaned_bytes,
)
from support.maintenance.keyed_metadata import KeyedMetadata


def prefix(world: KeyedMetadata, stream: int) -> Prefix:
    return prefix_of(world.image, world.stream(stream))


def ends(prefix: Prefix) -> list[int]:
    return [source.held.end_offset for source in prefix.objects]


def test_stream_objects_from_the_beginning_on(world) -> None:
    stream = world.topic()
    world.objects(stream, 100, 250)
    found = prefix(world, stream)
    assert ends(found) == [100, 250] and found.end_offset == 250
    assert found.blocking_object_id is None
    assert [source.size_bytes for source in found.objects] == [1100, 1600]


def test_a_stream_set_object_ends_it(world) -> None:
    stream = world.topic()
    world.objects(stream, 100)
    world.objects(stream, 150, in_set=True)
    world.objects(stream, 250)
    found = prefix(world, stream)
    assert ends(found) == [100]
    assert found.blocking_object_id == world.held(stream)[1][0]


def test_nothing_where_it_begins_in_a_stream_set_object(world) -> None:
    stream = world.topic()
    world.objects(stream, 100, in_set=True)
    found = prefix(world, stream)
    assert found.objects == () and found.end_offset == 0
    assert found.blocking_object_id == world.held(stream)[0][0]


def test_nothing_of_an_empty_stream(world) -> None:
    assert prefix(world, world.topic()) == Prefix(())


def test_objects_that_were_trimmed_away_are_not_read(world) -> None:
    stream = world.topic()
    world.objects(stream, 100, 200, 300)
    world.trim(stream, 200)
    assert ends(prefix(world, stream)) == [300]


def test_a_trimmed_stream_set_object_before_it_stands_in_nobodys_way(world) -> None:
    stream = world.topic()
    world.objects(stream, 100, in_set=True)
    world.objects(stream, 200)
    world.trim(stream, 100)
    found = prefix(world, stream)
    assert ends(found) == [200] and found.blocking_object_id is None


def test_bytes_of_a_part_of_an_object(world) -> None:
    stream = world.topic()
    world.objects(stream, 100, 200)
    sources = prefix(world, stream).objects
    assert bytes_between(sources, 0, 200) == 2000
    assert bytes_between(sources, 50, 130) == 800
    assert bytes_between(sources, 130, 130) == 0
    assert bytes_between(sources, 150, 120) == 0


def test_objects_below_an_offset(world) -> None:
    stream = world.topic()
    world.objects(stream, 100, 200)
    found = prefix(world, stream)
    assert [len(found.below(offset)) for offset in (0, 1, 100, 101, 999)] == [0, 1, 1, 2, 2]


def test_what_is_uncleaned_is_all_beyond_the_clean_offset_whatever_may_be_compacted(world) -> None:
    stream = world.topic()
    world.filled(stream, 100, 200)
    world.objects(stream, 300, in_set=True)
    assert list(uncleaned_bytes(world.stream(stream))) == [1_000, 1_000, 1_000]
    world.cleaned(stream, 150)
    assert list(uncleaned_bytes(world.stream(stream))) == [500, 1_000]
    world.trim(stream, 300)
    assert list(uncleaned_bytes(world.stream(stream))) == []
