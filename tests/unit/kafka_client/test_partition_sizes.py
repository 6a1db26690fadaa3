"""The bytes of partitions: of brokers that say them, that refuse, and that do not know the request."""

import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import KafkaRefusal, RequestNotSpoken
from siltstone.kafka_client.partition_sizes import partition_sizes
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def folder(*partitions: DescribeLogDirsPartition, error: ErrorCode = ErrorCode.NONE) -> DescribeLogDirsResult:
    topics = [DescribeLogDirsTopic(name="t", partitions=list(partitions))]
    return DescribeLogDirsResult(error_code=error, topics=topics)


class Brokers:
    """A cluster of which broker N leads partition N of each topic."""

    def __init__(self, answers: dict[int, DescribeLogDirsResponse | Exception]) -> None:
        self._answers = answers
        self.asked: list[DescribeLogDirsRequest] = []
        self._node_id = -1

    def patiently(self, attempt):
        return attempt()

    def by_leader(self, partitions):
        return {number: [key for key in partitions if key.partition == number] for number in self._answers}

    def broker(self, node_id: int) -> "Brokers":
        self._node_id = node_id
        return self

    def call(self, request: DescribeLogDirsRequest, _: type) -> DescribeLogDirsResponse:
        self.asked.append(request)
        answer = self._answers[self._node_id]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_each_leader_is_asked_for_its_partitions() -> None:
    moving = DescribeLogDirsPartition(partition_index=0, partition_size=3, is_future_key=True)
    answer = DescribeLogDirsResponse(
        results=[
            folder(DescribeLogDirsPartition(partition_index=0, partition_size=70), moving),
            folder(
                DescribeLogDirsPartition(partition_index=0, partition_size=9),
                error=ErrorCode.KAFKA_STORAGE_ERROR,
            ),
        ]
    )
    brokers = Brokers({0: answer, 1: RequestNotSpoken("it is old")})
    assert partition_sizes(brokers, [U0, T0, T1]) == {T0: 70}
    assert [{each.topic: each.partitions for each in asked.topics} for asked in brokers.asked] == [
        {"t": [0], "u": [0]},
        {"t": [1]},
    ]
    assert partition_sizes(brokers, []) == {}


def test_a_client_that_may_not_describe_the_cluster_learns_nothing() -> None:
    refused = DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert partition_sizes(Brokers({0: refused}), [T0]) == {}
    with pytest.raises(KafkaRefusal):
        partition_sizes(Brokers({0: DescribeLogDirsResponse(error_code=ErrorCode.INVALID_REQUEST)}), [T0])
