"""The load that a node reports: means over the last minute of what was counted since a partition was opened."""

from siltstone.cluster.balancing.measuring import LoadMeter
from siltstone.metadata.leases.board import PartitionLoad

NOTHING = (0.0, 0.0, 0.0)


def test_a_mean_is_of_the_last_minute() -> None:
    meter = LoadMeter()
    assert meter.measured(0, {("t", 0): (1_000_000, 0, 0)}) == ((), NOTHING), "nothing to compare with yet"
    for at in range(1, 7):
        listed, _ = meter.measured(10_000 * at, {("t", 0): (1_000_000 + 5_000 * at, 100 * at, at)})
    assert listed == (PartitionLoad("t", 0, 500.0, 10.0, 0.1),)
    listed, _ = meter.measured(70_000, {("t", 0): (1_030_000, 600, 6)})
    assert listed == (PartitionLoad("t", 0, 25_000 / 60, 500 / 60, 5 / 60),), "what came before is forgotten"


def test_a_partition_that_was_opened_meanwhile_or_again_began_at_nothing() -> None:
    meter = LoadMeter()
    meter.measured(0, {("t", 0): (9_000, 0, 0)})
    listed, _ = meter.measured(10_000, {("t", 0): (1_000, 0, 0), ("t", 1): (2_000, 0, 0)})
    assert [(load.index, load.bytes_in) for load in listed] == [(1, 200.0), (0, 100.0)]


def test_one_that_is_led_elsewhere_now_is_not_listed() -> None:
    meter = LoadMeter()
    meter.measured(0, {("t", 0): (0, 0, 0)})
    assert meter.measured(10_000, {}) == ((), NOTHING)


def test_the_heaviest_are_listed_and_the_sums_of_the_others() -> None:
    meter = LoadMeter(listed_max=2)
    meter.measured(0, {})
    counts = {
        ("t", 0): (10, 0, 1),
        ("t", 1): (50_000, 0, 0),
        ("t", 2): (0, 60_000, 0),
        ("t", 3): (30, 20, 0),
        ("t", 4): (0, 0, 0),
    }
    listed, others = meter.measured(1_000, counts)
    assert [load.index for load in listed] == [2, 1]
    assert others == (40.0, 20.0, 1.0)


def test_partitions_without_traffic_are_not_listed() -> None:
    meter = LoadMeter()
    meter.measured(0, {("t", 0): (5, 5, 5)})
    assert meter.measured(1_000, {("t", 0): (5, 5, 5)}) == ((), NOTHING)
