import pytest

from siltstone.maintenance.key_compaction.planning.binding import why_stale
from siltstone.metadata.commands import CommitCompaction, DeleteTopic
from support.maintenance.keyed_metadata import KeyedMetadata


@pytest.fixture
def stream(world: KeyedMetadata) -> int:
    stream = world.topic()
    world.filled(stream, 100, 200)
    return stream


def test_what_goes_on_beyond_it_is_nothing_to_it(world, stream) -> None:
    plan = world.the_plan()
    world.objects(stream, 300)
    world.roll(stream, 300)
    world.trim(stream, 150)
    assert why_stale(world.image, plan) is None


def test_a_topic_that_is_gone(world, stream) -> None:
    plan = world.the_plan()
    world.do(DeleteTopic(0, 1, plan.topic_id))
    assert why_stale(world.image, plan) == "topic t was deleted meanwhile"


def test_another_configuration(world, stream) -> None:
    plan = world.the_plan()
    world.configure(delete_retention_ms="5")
    assert why_stale(world.image, plan) == "topic t was reconfigured meanwhile"


def test_trimmed_as_far_as_it_goes(world, stream) -> None:
    plan = world.the_plan()
    world.trim(stream, 199)
    assert why_stale(world.image, plan) is None
    world.trim(stream, 200)
    assert why_stale(world.image, plan) == "everything before offset 200 was trimmed meanwhile"


def test_another_driver_was_faster(world, stream) -> None:
    plan = world.the_plan()
    world.cleaned(stream, 150)
    assert why_stale(world.image, plan) == "another driver compacted it up to offset 150 meanwhile"


def test_other_objects(world, stream) -> None:
    plan = world.the_plan()
    job_id = world.start_job()
    joined = world.compaction(job_id, (0, 1), alone=((stream, 0, 200),))
    assert isinstance(joined, CommitCompaction)
    world.do(joined)
    assert why_stale(world.image, plan) == "its objects were replaced by another driver meanwhile"
