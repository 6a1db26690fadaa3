from msgspec.structs import replace

from siltstone.maintenance.key_compaction.planning.planner import waves
from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan
from support.maintenance.keyed_metadata import KeyedMetadata


def plans(*sizes: int) -> list[StreamPlan]:
    """Which read ``sizes`` bytes in one object, and nothing twice."""
    world = KeyedMetadata()
    world.filled(world.topic(), 100)
    plan = world.the_plan()
    source, dirtiness = plan.sources[0], replace(plan.dirtiness, dirty_bytes=0)
    return [
        replace(plan, name=f"{at}", sources=(replace(source, size_bytes=size),), dirtiness=dirtiness)
        for at, size in enumerate(sizes)
    ]


def names(made: list[StreamPlan], bytes_max: int, streams_max: int = 100) -> list[list[str]]:
    return [[plan.name for plan in wave] for wave in waves(made, bytes_max, streams_max)]


def test_as_many_as_fit() -> None:
    assert names(plans(40, 60, 1, 99, 2), 100) == [["0", "1"], ["2", "3"], ["4"]]


def test_a_large_one_goes_alone() -> None:
    assert names(plans(10, 500, 10), 100) == [["0"], ["1"], ["2"]]


def test_no_more_streams_than_allowed() -> None:
    assert names(plans(1, 1, 1, 1, 1), 100, 2) == [["0", "1"], ["2", "3"], ["4"]]


def test_nothing() -> None:
    assert names([], 100) == []
