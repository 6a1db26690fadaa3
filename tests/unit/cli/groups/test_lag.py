import pytest

from siltstone.cli.groups import lag as module
from siltstone.cli.groups.lag import (
    LagRate,
    PartitionLag,
    end_offsets,
    lag_bytes,
    partition_lags,
    rate_between,
    record_bytes,
    total_lag,
)
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_client.offsets import FoundOffset
from siltstone.kafka_protocol.error_code import ErrorCode
from support.kafka.fake_cluster import FakeCluster

T0, T1, DELETED = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("deleted", 0)


@pytest.mark.parametrize(
    ("committed", "end", "lag"), [(3, 10, 7), (10, 10, 0), (12, 10, 0), (None, 10, None), (3, None, None)]
)
def test_the_lag_of_a_partition(committed: int | None, end: int | None, lag: int | None) -> None:
    assert PartitionLag(T0, committed, end).lag == lag


def test_all_partitions_with_an_end_count_together() -> None:
    assert total_lag(partition_lags({T0: 3, T1: 5, DELETED: 1}, {T0: 10, T1: 6})) == 8
    assert total_lag(partition_lags({T0: 3, T1: 5}, {T0: 10, T1: 6}, {T0: 2})) == 6


def test_the_bytes_of_a_lag_are_those_of_average_records_and_unknown_if_one_partition_is() -> None:
    rows = partition_lags({T0: 3, T1: 5, DELETED: 1}, {T0: 10, T1: 5})
    assert lag_bytes(rows, {T0: 10.5}) == 74
    assert lag_bytes(rows, {T1: 1.0}) is None
    assert lag_bytes([], {}) == 0


def test_an_average_record_is_one_between_start_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "partition_sizes", lambda _, keys: {T0: 1_000, T1: 70})
    monkeypatch.setattr(
        module, "offsets_at", lambda _, keys, timestamp: {key: FoundOffset(30, -1) for key in keys}
    )
    found = record_bytes(FakeCluster(1), {T0, T1, DELETED}, {T0: 40, T1: 30, DELETED: 7})
    assert found == {T0: 100.0, T1: 70.0}


def test_topics_that_are_gone_do_not_spoil_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def offsets_at(_: object, keys: set[TopicPartition], timestamp: int) -> dict[TopicPartition, FoundOffset]:
        if DELETED in keys:
            raise KafkaRefusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")
        return {key: FoundOffset(5, -1) for key in keys}

    monkeypatch.setattr(module, "offsets_at", offsets_at)
    cluster = FakeCluster(1)
    cluster.learn = lambda names: [
        topic for topic in FakeCluster.learn(cluster, names) if topic.name != "deleted"
    ]
    assert end_offsets(cluster, [T0, DELETED]) == {T0: 5}
    assert end_offsets(cluster, [T0]) == {T0: 5}
    assert end_offsets(cluster, [DELETED]) == {}
    assert end_offsets(cluster, []) == {}


def test_a_rate_counts_the_partitions_whose_lag_both_looks_know() -> None:
    def look(*rows: tuple[int, int | None, int | None]) -> list[PartitionLag]:
        return [PartitionLag(TopicPartition("t", number), committed, end) for number, committed, end in rows]

    before = look((0, 5, 10), (1, None, 10), (2, 5, 10), (3, 9, 9))
    after = look((0, 9, 30), (1, 5, 20), (2, 5, None), (3, 4, 9), (4, 1, 2))
    assert rate_between(before, after, 10) == LagRate(10, 20, -1)
    assert rate_between(before, after, 10).change_per_s == pytest.approx(2.1)
    assert rate_between([], after, 1) == LagRate(1, 0, 0)
