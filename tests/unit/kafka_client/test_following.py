"""Which records come, in which order, and what happens while the broker is away."""

from collections.abc import Iterator

import pytest

from siltstone.kafka_client import following as module
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import BrokerGone, KafkaNotReady, KafkaRefusal
from siltstone.kafka_client.following import RECONNECT_TIME_LIMIT_MS, Following
from siltstone.kafka_client.offsets import Ends
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.records.reading import Record
from support.kafka.fake_cluster import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GONE = BrokerGone("the connection is lost")
MOVING = KafkaNotReady(ErrorCode.LEADER_NOT_AVAILABLE, "not now")


class FakeFetcher:
    """``logs``: the offsets there are, with their times. ``failures``: raised by the next fetches, None for none."""

    logs: dict[TopicPartition, dict[int, int]]
    failures: list[Exception | None]

    def __init__(
        self, cluster: object, positions: dict[TopicPartition, int], on_gap: object, isolation: int
    ) -> None:
        self.positions = dict(positions)
        self.on_gap = on_gap

    def fetch(self, wait_ms: int) -> Iterator[tuple[TopicPartition, Record]]:
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        for key, position in list(self.positions.items()):
            for offset, timestamp_ms in self.logs[key].items():
                if offset >= position:
                    self.positions[key] = offset + 1
                    yield key, Record(offset=offset, timestamp_ms=timestamp_ms)


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch, logs: dict, *failures: Exception | None) -> None:
        self.cluster = FakeCluster(2)
        self.remarks: list[str] = []
        self.following = Following(self.cluster, self.remarks.append)
        fetcher = type("ScriptedFetcher", (FakeFetcher,), {"logs": logs, "failures": list(failures)})
        monkeypatch.setattr(module, "Fetcher", fetcher)
        monkeypatch.setattr(
            module, "ends_of", lambda _, keys: {key: Ends(0, max(logs[key], default=-1) + 1) for key in keys}
        )

    def until(self, positions: dict, until: dict) -> list[tuple[int, int]]:
        found = self.following.records(positions, until)
        return [(each[0].partition, each[1].offset) for each in found if each is not None]

    def last(self, count: int) -> list[tuple[int, int]]:
        found, ends = self.following.last([T0, T1], count)
        assert set(ends) == {T0, T1}
        return [(key.partition, record.offset) for key, record in found]


def test_each_partition_comes_up_to_its_end(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {0: 1, 1: 1, 2: 1}, T1: {5: 1, 6: 1}})
    assert world.until({T0: 1, T1: 5}, {T0: 2, T1: 7}) == [(0, 1), (1, 5), (1, 6)]
    assert world.until({T0: 3, T1: 7}, {T0: 3, T1: 7}) == []


def test_pauses_are_told_so_that_what_came_is_shown(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {0: 1}})
    coming = world.following.records({T0: 0})
    assert [next(coming) is None for _ in range(4)] == [False, True, True, True]


def test_a_lost_broker_is_remarked_once_and_waited_for(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {0: 1, 1: 1}}, GONE, GONE, GONE)
    assert world.until({T0: 0}, {T0: 2}) == [(0, 0), (0, 1)]
    assert world.remarks == ["the connection is lost; retrying for 60 s"]


def test_a_leader_that_moves_is_no_remark(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {0: 1}}, MOVING, MOVING)
    assert world.until({T0: 0}, {T0: 1}) == [(0, 0)]
    assert world.remarks == []


def test_a_leader_that_stays_away_is_a_remark(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {0: 1}}, MOVING, MOVING, MOVING, MOVING)
    assert world.until({T0: 0}, {T0: 1}) == [(0, 0)]
    assert world.remarks == [f"{MOVING}; retrying for 60 s"]


def test_after_a_minute_without_a_broker_it_ends(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {0: 1}}, *[GONE] * 1000)
    began = world.cluster.clock.monotonic_ms()
    with pytest.raises(BrokerGone):
        world.until({T0: 0}, {T0: 1})
    assert (
        RECONNECT_TIME_LIMIT_MS * 0.9 < world.cluster.clock.monotonic_ms() - began <= RECONNECT_TIME_LIMIT_MS
    )


def test_what_will_not_pass_ends_it_at_once(monkeypatch) -> None:
    refused = KafkaRefusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")
    with pytest.raises(KafkaRefusal):
        World(monkeypatch, {T0: {0: 1}}, refused).until({T0: 0}, {T0: 1})


def test_the_last_ones_are_those_of_the_latest_times(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {0: 10, 1: 40, 2: 50}, T1: {0: 20, 1: 30, 2: 35}})
    assert world.last(3) == [(1, 2), (0, 1), (0, 2)]
    assert world.last(100) == [(0, 0), (1, 0), (1, 1), (1, 2), (0, 1), (0, 2)]
    assert world.last(0) == []


def test_where_compaction_left_gaps_it_looks_back_further(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {0: 1, 7: 2, 500: 3, 999: 4}, T1: {}})
    assert world.last(3) == [(0, 7), (0, 500), (0, 999)]


def test_gaps_are_told(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {}})
    world.following._tell_gap(T0, 5, 9)
    assert world.remarks == ["partition 0: the records at offsets 5 to 8 were deleted"]


def test_a_topic_made_anew_is_told(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {}})
    world.following._tell_gap(T0, 9, 5)
    assert world.remarks == [
        "partition 0 ends before offset 9: the topic was deleted and created again; continuing at offset 5"
    ]


def test_what_is_past_its_end_is_not_fetched_any_more(monkeypatch) -> None:
    """A partition that ends exactly there, and one whose last fetch went beyond."""
    world = World(monkeypatch, {T0: {0: 1}, T1: {0: 1, 1: 1, 2: 1}})
    fetched: list[dict[TopicPartition, int]] = []
    world.following = Following(world.cluster, world.remarks.append, lambda at: fetched.append(dict(at)))
    assert world.until({T0: 0, T1: 0}, {T0: 1, T1: 2}) == [(0, 0), (1, 0), (1, 1)]
    assert fetched == [{}]


def test_positions_are_told_after_every_fetch(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {4: 1}})
    told: list[dict[TopicPartition, int]] = []
    world.following = Following(world.cluster, world.remarks.append, lambda at: told.append(dict(at)))
    coming = world.following.records({T0: 2})
    assert [next(coming) is None for _ in range(3)] == [False, True, True]
    assert told == [{T0: 5}, {T0: 5}]


def test_each_outage_has_a_minute_of_its_own_and_a_remark_of_its_own(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {0: 1}}, *[GONE] * 60, None, *[GONE] * 60)
    coming = world.following.records({T0: 0})
    clock = world.cluster.clock
    began = clock.monotonic_ms()
    assert next(coming) is not None and next(coming) is None
    first = clock.monotonic_ms() - began
    assert next(coming) is None
    assert RECONNECT_TIME_LIMIT_MS / 2 < first < RECONNECT_TIME_LIMIT_MS < clock.monotonic_ms() - began
    assert len(world.remarks) == 2


def test_whoever_asked_hears_of_gaps_too(monkeypatch) -> None:
    world = World(monkeypatch, {T0: {}})
    gaps: list[tuple] = []
    following = Following(world.cluster, world.remarks.append, on_gap=lambda *gap: gaps.append(gap))
    following._tell_gap(T0, 5, 5)
    following._tell_gap(T0, 9, 5)
    assert gaps == [(T0, 5, 5), (T0, 9, 5)]
    assert [remark.partition(":")[0] for remark in world.remarks] == [
        "partition 0",
        "partition 0 ends before offset 9",
    ]
