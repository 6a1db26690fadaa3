import pytest

from siltstone.cluster.balancing.balancer import MOVES_AT_A_TIME
from siltstone.cluster.balancing.carrying_out import MoveNotDone, PlanOutdated, carry_out, refuse_outdated
from siltstone.cluster.balancing.goals import Load
from siltstone.cluster.balancing.planning import PlannedMove
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import NO_NODE, PartitionMetadata, TopicMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.runtime.clock import ManualClock

ID = "ab" * 16


class PassingClock(ManualClock):
    """Time passes while a thread waits."""

    def block_ms(self, duration_ms: float) -> None:
        self.advance_ms(duration_ms)


class Moved:
    """Partitions that arrive at their target after ``looks`` looks at the image."""

    def __init__(self, *leaders: int, looks: int = 2) -> None:
        self.clock = PassingClock()
        self.partitions = [
            PartitionMetadata(number, number + 100, leader) for number, leader in enumerate(leaders)
        ]
        self.looks = looks
        self.left = 0
        self.said: list[list[int]] = []

    def move(self, partition: int, source: int, target: int) -> PlannedMove:
        return PlannedMove(ID, "t", partition, source, target, Load(), "why")

    def order(self, turn: tuple[PlannedMove, ...]) -> None:
        assert all(each.target == NO_NODE for each in self.partitions), "the turn before has arrived"
        self.left = self.looks
        for each in turn:
            found = self.partitions[each.partition]
            self.partitions[each.partition] = PartitionMetadata(
                found.data_stream_id, found.meta_stream_id, found.leader, each.target
            )

    def newest(self) -> MetadataImage:
        self.left -= 1
        if self.left < 0:
            self.partitions = [
                PartitionMetadata(each.data_stream_id, each.meta_stream_id, each.target)
                if each.target != NO_NODE
                else each
                for each in self.partitions
            ]
        return self.image

    @property
    def image(self) -> MetadataImage:
        topic = TopicMetadata(ID, "t", tuple(self.partitions), {}, 1, 0, False)
        return MetadataImage(topics=ShardedMap([(ID, topic)]))

    def carry_out(self, *moves: PlannedMove) -> None:
        carry_out(
            moves, self.order, self.newest, self.clock,
            lambda turn: self.said.append([each.partition for each in turn]),
        )  # fmt: skip


def test_each_turn_begins_when_the_one_before_has_arrived():
    world = Moved(0, 0, 0)
    world.carry_out(*(world.move(number, 0, 1) for number in range(3)))
    assert [each.leader for each in world.partitions] == [1, 1, 1]
    assert world.said == [[0, 1], [2]] and MOVES_AT_A_TIME == 2


def test_a_move_that_hangs_is_told_after_a_minute():
    world = Moved(0, looks=10_000)
    began_ms = world.clock.monotonic_ms()
    with pytest.raises(MoveNotDone, match="t-0 has not reached broker 1 in a minute"):
        world.carry_out(world.move(0, 0, 1))
    assert 60_000 <= world.clock.monotonic_ms() - began_ms < 61_000


def test_a_topic_that_is_deleted_meanwhile_is_not_waited_for():
    world = Moved(0, looks=10_000)
    carry_out([world.move(0, 0, 1)], world.order, MetadataImage, world.clock)


def test_a_plan_is_refused_when_a_partition_is_no_longer_where_it_was():
    world = Moved(0, 1)
    refuse_outdated(world.image, [world.move(0, 0, 1), world.move(1, 1, 0)])
    for outdated in (world.move(0, 1, 0), world.move(7, 0, 1)):
        with pytest.raises(PlanOutdated, match="look at the plan again"):
            refuse_outdated(world.image, [outdated])
    world.order((world.move(0, 0, 1),))
    with pytest.raises(PlanOutdated, match="t-0 has moved"):
        refuse_outdated(world.image, [world.move(0, 0, 1)])
    with pytest.raises(PlanOutdated):
        refuse_outdated(MetadataImage(), [world.move(0, 0, 1)])
