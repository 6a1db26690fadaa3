"""Key compaction ends where a partition may have transactions."""

from siltstone.offline.topic_streams import put_transactional_from


def flag(world, offset: int, partition: int = 0) -> None:
    (topic_id,) = world.image.topics
    world.do(put_transactional_from(topic_id, partition, offset))


def test_it_does_not_pass_the_first_transaction(world) -> None:
    stream = world.topic()
    world.filled(stream, 100, 200)
    flag(world, 120)
    plan = world.the_plan()
    assert plan.bound == 120
    assert plan.limit == "it has transactions from offset 120 on, which key compaction does not read yet"


def test_what_lies_behind_it_is_not_compacted_and_the_reason_is_told(world) -> None:
    stream = world.topic()
    world.filled(stream, 100, 200)
    flag(world, 0)
    assert "it has transactions from offset 0 on" in world.why_not()
    assert "it has transactions from offset 0 on" in world.why_not(up_to=150)


def test_other_partitions_are_compacted(world) -> None:
    stream = world.topic(partitions=2)
    world.filled(stream, 100, 200)
    flag(world, 0, partition=1)
    assert world.the_plan().bound == 200
