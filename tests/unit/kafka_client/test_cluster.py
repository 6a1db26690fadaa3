import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import parse_bootstrap
from siltstone.kafka_client.failures import BrokerGone, BrokerNotThere, KafkaNotReady, KafkaRefusal, NotKafka
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from siltstone.kafka_protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from siltstone.kafka_protocol.notation import Message
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.kafka.scripted_broker import EVERYTHING, listening, scripted_broker


def cluster(bootstrap: str) -> Cluster:
    return Cluster(parse_bootstrap(bootstrap), ManualClock(), seeded_randomness(1))


def nobody() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def telling(answers: dict[ApiKey, list[Message]], asked: list[Message] | None = None):
    """Answers each API's requests in turn, the last for ever."""

    def answer(header, request: Message) -> Message:
        if header.api_key is ApiKey.API_VERSIONS:
            return EVERYTHING
        if asked is not None:
            asked.append(request)
        waiting = answers[header.api_key]
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return answer


@contextmanager
def cluster_of(answers: dict[ApiKey, list[Message]], asked: list[Message] | None = None) -> Iterator[Cluster]:
    with scripted_broker(telling(answers, asked)) as address, cluster(address) as found:
        yield found


def metadata(address: str, leader: int = 1, code: ErrorCode = ErrorCode.NONE) -> MetadataResponse:
    host, _, port = address.rpartition(":")
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, error_code=code)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host=host, port=int(port))],
        topics=[MetadataResponseTopic(name="t", partitions=[partition])],
    )


def test_addresses_are_tried_in_turn() -> None:
    answer = telling({ApiKey.METADATA: [metadata("h:1")]})
    with scripted_broker(answer) as address, cluster(f"{nobody()},{address}") as found:
        assert [topic.name for topic in found.learn(["t"])] == ["t"]


def test_when_none_answers_all_are_named() -> None:
    first, second = nobody(), nobody()
    with pytest.raises(BrokerNotThere, match=f"none of {first}, {second} answers"):
        cluster(f"{first},{second}").learn(None)


def test_the_failure_of_the_only_address_is_told_as_it_is() -> None:
    def http(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"HTTP/1.1 400 \r\n\r\n")
        connection.recv(1)

    with listening(http) as address, pytest.raises(NotKafka):
        cluster(address).learn(None)


def test_topics_are_never_made_by_asking() -> None:
    asked: list[Message] = []
    with cluster_of({ApiKey.METADATA: [metadata("h:1")]}, asked) as found:
        found.learn(["t"])
    assert [request.allow_auto_topic_creation for request in asked] == [False]


def test_a_broker_whose_advertised_address_is_wrong() -> None:
    advertised = nobody()
    with cluster_of({ApiKey.METADATA: [metadata(advertised)]}) as found:
        leader = found.leader_of(TopicPartition("t", 0))
        with pytest.raises(
            BrokerNotThere, match=f"advertises {advertised} for broker 1.*advertised_listeners"
        ):
            found.broker(leader)


def test_leaders_are_remembered_until_they_are_forgotten() -> None:
    asked: list[Message] = []
    with cluster_of({ApiKey.METADATA: [metadata("h:1")]}, asked) as found:
        key = TopicPartition("t", 0)
        assert found.by_leader([key, key]) == {1: [key, key]}
        assert len(asked) == 1
        found.forget_leaders()
        assert found.leader_of(key) == 1
        assert len(asked) == 2


@pytest.mark.parametrize(
    "answer",
    [metadata("h:1", leader=-1), metadata("h:1", code=ErrorCode.LEADER_NOT_AVAILABLE), MetadataResponse()],
)
def test_a_partition_without_a_leader_is_not_ready(answer: MetadataResponse) -> None:
    with (
        cluster_of({ApiKey.METADATA: [answer]}) as found,
        pytest.raises(KafkaNotReady, match="t-0 has no leader"),
    ):
        found.leader_of(TopicPartition("t", 0))


def coordinators(code: ErrorCode = ErrorCode.NONE) -> FindCoordinatorResponse:
    rows = [
        Coordinator(key=key, node_id=number, host="h", port=1, error_code=code)
        for key, number in (("a", 1), ("b", 2))
    ]
    return FindCoordinatorResponse(coordinators=rows)


def test_groups_are_asked_for_at_their_coordinators_when_they_are_ready() -> None:
    answers = [coordinators(ErrorCode.COORDINATOR_NOT_AVAILABLE), coordinators()]
    with cluster_of({ApiKey.FIND_COORDINATOR: answers}) as found:
        assert found.coordinators_of(["a", "b"]) == {1: ["a"], 2: ["b"]}
        assert found.coordinators_of([]) == {}


def test_a_refused_group_is_named() -> None:
    answers = [coordinators(ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    with (
        cluster_of({ApiKey.FIND_COORDINATOR: answers}) as found,
        pytest.raises(KafkaRefusal, match="group a: "),
    ):
        found.coordinators_of(["a", "b"])


def test_a_broker_has_one_connection_until_the_cluster_is_left() -> None:
    asked: list[Message] = []
    answers: dict[ApiKey, list[Message]] = {}
    with scripted_broker(telling(answers, asked)) as bootstrap, scripted_broker(telling({})) as address:
        answers[ApiKey.METADATA] = [metadata(address)]
        with cluster(bootstrap) as found:
            assert found.broker_ids == [] and found.address_of(1) == "?"
            broker = found.broker(1)
            assert [request.topics for request in asked] == [[]], "it asks for brokers, not for topics"
            assert found.broker(1) is broker and len(asked) == 1
            assert found.broker_ids == [1] and found.address_of(1) == address
            entrance = found.entrance()
            assert entrance is found.entrance() is not broker
            found.reconnect()
            assert found.broker(1) is not broker and found.entrance() is not entrance
            for closed in (broker, entrance):
                with pytest.raises(BrokerGone):
                    closed.call(MetadataRequest(topics=[]), MetadataResponse)


def test_a_broker_that_the_cluster_does_not_list() -> None:
    with cluster_of({ApiKey.METADATA: [metadata("h:1")]}) as found:
        with pytest.raises(KafkaNotReady, match="does not list broker 7 now"):
            found.broker(7)
        assert found.broker_ids == [1]


def test_a_broker_of_bootstrap_that_has_gone_is_not_said_to_be_advertised_wrongly() -> None:
    gone = nobody()
    with (
        scripted_broker(telling({ApiKey.METADATA: [metadata(gone)]})) as address,
        cluster(f"{gone},{address}") as found,
    ):
        with pytest.raises(BrokerNotThere) as missing:
            found.broker(1)
        assert "advertise" not in str(missing.value)
