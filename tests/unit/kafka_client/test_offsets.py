"""Which broker is asked for which offsets, and what is made of its answer."""

from collections.abc import Mapping

import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_client.offsets import (
    EARLIEST,
    LATEST,
    NEWEST,
    Ends,
    FoundOffset,
    delete_records,
    ends_of,
    offsets_at,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from support.kafka.answering_cluster import AnsweringCluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
LEADERS = {"a": [1, 2], "b": [1]}
TIME_MS = 1_700_000_000_000


class World:
    """``offsets``: asked for which timestamp → the offset in each partition. ``errors``: the next of a partition."""

    def __init__(
        self, offsets: Mapping[int, Mapping[TopicPartition, int]] | None = None, **errors: ErrorCode
    ) -> None:
        self.offsets = offsets or {}
        self.errors = errors
        self.cluster = AnsweringCluster(
            LEADERS, answers={ListOffsetsRequest: self._found, DeleteRecordsRequest: self._deleted}
        )

    def _error(self, key: TopicPartition) -> ErrorCode:
        return self.errors.pop(f"{key.topic}{key.partition}", ErrorCode.NONE)

    def _found(self, _: int, request: ListOffsetsRequest) -> ListOffsetsResponse:
        assert request.replica_id == -1, "a consumer, not a broker"
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                key = TopicPartition(topic.name, asked.partition_index)
                offset = self.offsets[asked.timestamp][key]
                rows.append(
                    ListOffsetsPartitionResponse(
                        partition_index=key.partition,
                        error_code=self._error(key),
                        offset=offset,
                        timestamp=asked.timestamp + 5,
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
        return ListOffsetsResponse(topics=topics)

    def _deleted(self, _: int, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        topics = []
        for topic in request.topics:
            rows = []
            for asked in topic.partitions:
                key = TopicPartition(topic.name, asked.partition_index)
                rows.append(
                    DeleteRecordsPartitionResult(
                        partition_index=key.partition,
                        error_code=self._error(key),
                        low_watermark=asked.offset,
                    )
                )
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
        return DeleteRecordsResponse(topics=topics)

    @property
    def nodes_asked(self) -> list[int]:
        return [node_id for node_id, _ in self.cluster.asked]


def test_kafka_s_special_timestamps() -> None:
    assert (LATEST, EARLIEST, NEWEST) == (-1, -2, -3)


def test_each_leader_is_asked_once_for_all_that_it_leads() -> None:
    world = World({TIME_MS: {A0: 7, A1: 8, B0: 9}})
    assert offsets_at(world.cluster, [B0, A1, A0], TIME_MS) == {
        A0: FoundOffset(7, TIME_MS + 5),
        A1: FoundOffset(8, TIME_MS + 5),
        B0: FoundOffset(9, TIME_MS + 5),
    }
    assert world.nodes_asked == [1, 2]


def test_a_partition_s_ends_and_how_far_they_are_apart() -> None:
    world = World({EARLIEST: {A0: 3, A1: 0}, LATEST: {A0: 10, A1: 0}})
    ends = ends_of(world.cluster, iter([A1, A0]))
    assert ends == {A1: Ends(0, 0), A0: Ends(3, 10)}
    assert ends[A0].span == 7


def test_a_leader_that_has_moved_is_looked_up_again() -> None:
    world = World({TIME_MS: {A0: 7}}, a0=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert offsets_at(world.cluster, [A0], TIME_MS)[A0].offset == 7
    assert world.nodes_asked == [1, 1]
    assert world.cluster.metadata_requests == 2


def test_a_refusal_is_told_with_its_partition_and_is_not_repeated() -> None:
    world = World({TIME_MS: {A1: 7}}, a1=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaRefusal, match="partition a-1"):
        offsets_at(world.cluster, [A1], TIME_MS)
    assert world.nodes_asked == [2]
    assert world.cluster.metadata_requests == 1


def test_each_leader_deletes_the_records_of_what_it_leads() -> None:
    world = World()
    before = {A0: 5, A1: 6, B0: 7}
    assert delete_records(world.cluster, before) == before
    assert world.nodes_asked == [1, 2]
    assert {request.timeout_ms for _, request in world.cluster.asked} == {30_000}


def test_records_that_cannot_be_deleted_are_told_and_a_moved_leader_is_asked_again() -> None:
    with pytest.raises(KafkaRefusal, match="partition b-0"):
        delete_records(World(b0=ErrorCode.OFFSET_OUT_OF_RANGE).cluster, {B0: 99})
    assert delete_records(World(b0=ErrorCode.NOT_LEADER_OR_FOLLOWER).cluster, {B0: 3}) == {B0: 3}
