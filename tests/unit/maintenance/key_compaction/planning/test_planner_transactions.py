"""Key compaction ends where a transaction is not decided."""

from siltstone.carrying.pipeline.kind import Scope
from siltstone.maintenance.key_compaction.planning.planner import (
    KnownTransactions,
    plan_streams,
    with_transactions,
)
from siltstone.offline.topic_streams import put_transactional_from


def flag(world, offset: int, partition: int = 0) -> None:
    (topic_id,) = world.image.topics
    world.do(put_transactional_from(topic_id, partition, offset))


def planned(world, known: KnownTransactions):
    (topic,) = world.image.topics.values()
    return plan_streams(world.image, Scope(), world.now_ms, {(topic.name, 0): known})


def test_tp27_it_does_not_pass_an_open_transaction_and_names_its_producer(world) -> None:
    stream = world.topic()
    world.filled(stream, 100, 200)
    flag(world, 20)
    (plan,) = planned(world, KnownTransactions(120, 9, 80)).chosen
    assert (plan.bound, plan.commit_markers_end) == (120, 80)
    assert plan.limit == "a transaction of producer 9 is open since offset 120"
    (plan,) = planned(world, KnownTransactions(snapshot_offset=80)).chosen
    assert (plan.bound, plan.commit_markers_end) == (200, 80), "all is decided"
    nothing = planned(world, KnownTransactions(0, 9, 0))
    assert "a transaction of producer 9 is open since offset 0" in nothing.unplanned[0].reason


def test_where_the_objects_were_not_looked_at_all_may_be_undecided(world) -> None:
    stream = world.topic()
    world.filled(stream, 100, 200)
    flag(world, 120)
    plan = world.the_plan()
    assert (plan.bound, plan.commit_markers_end) == (120, 0)


def test_without_transactions_each_marker_may_go_as_in_kafka(world) -> None:
    stream = world.topic(partitions=2)
    world.filled(stream, 100, 200)
    flag(world, 0, partition=1)
    plan = world.the_plan()
    assert (plan.bound, plan.commit_markers_end) == (200, None)


def test_objects_are_looked_at_only_where_there_is_something_to_compact(world) -> None:
    stream = world.topic(partitions=2)
    assert with_transactions(world.image, Scope()) == []
    flag(world, 0)
    assert with_transactions(world.image, Scope()) == [], "nothing is in objects"
    world.filled(stream, 100, 200)
    assert [each.partition for each in with_transactions(world.image, Scope())] == [0]
    assert with_transactions(world.image, Scope(topics=frozenset(["another"]))) == []
