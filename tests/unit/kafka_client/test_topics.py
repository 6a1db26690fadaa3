"""How topics are found and named, and what their broker is asked to do with them."""

import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import KafkaRefusal, PartitionUnknown, TopicUnknown
from siltstone.kafka_client.topics import (
    add_partitions,
    all_topics,
    create_topic,
    delete_topics,
    find_topic,
    find_topics,
    partitions_of,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from siltstone.kafka_protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from siltstone.kafka_protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from siltstone.kafka_protocol.messages.metadata import MetadataResponseTopic
from support.kafka.answering_cluster import AnsweringCluster

LEADERS = {"flights": [1, 2, 1], "boats": [2]}


def cluster(code: ErrorCode = ErrorCode.NONE) -> AnsweringCluster:
    """Whatever is to be changed is answered with ``code``; of topics to delete, the first one is."""

    def created(_: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
        rows = [
            CreatableTopicResult(name=topic.name, error_code=code, error_message="why", num_partitions=4)
            for topic in request.topics
        ]
        return CreateTopicsResponse(topics=rows)

    def grown(_: int, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
        rows = [
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message="why")
            for topic in request.topics
        ]
        return CreatePartitionsResponse(results=rows)

    def deleted(_: int, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        codes = [code] + [ErrorCode.NONE] * len(request.topics)
        rows = [
            DeletableTopicResult(name=topic.name, error_code=each, error_message="why" if each else None)
            for topic, each in zip(request.topics, codes, strict=False)
        ]
        return DeleteTopicsResponse(responses=rows)

    answers = {CreateTopicsRequest: created, CreatePartitionsRequest: grown, DeleteTopicsRequest: deleted}
    return AnsweringCluster(LEADERS, answers=answers)


def test_all_topics_come_by_their_names() -> None:
    assert [topic.name for topic in all_topics(cluster())] == ["boats", "flights"]


def test_topics_are_found_in_the_order_asked() -> None:
    assert [topic.name for topic in find_topics(cluster(), ["flights", "boats"])] == ["flights", "boats"]
    assert find_topic(cluster(), "flights").name == "flights"


def test_a_topic_that_is_not_there_is_answered_with_those_of_like_names() -> None:
    with pytest.raises(TopicUnknown, match=r"no topic flight: did you mean flights\?"):
        find_topic(cluster(), "flight")
    with pytest.raises(TopicUnknown, match=r"no topic zebras: siltstone topics lists them$"):
        find_topics(cluster(), ["flights", "zebras"])
    many = cluster()
    many.topics |= {f"flights-{n}": MetadataResponseTopic(name=f"flights-{n}") for n in range(5)}
    with pytest.raises(TopicUnknown) as raised:
        find_topic(many, "flights-")
    assert str(raised.value).count(" or ") == 2


@pytest.mark.parametrize(
    ("code", "failure", "told"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, TopicUnknown, "there is no topic flights"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, KafkaRefusal, "topic flights"),
        (
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            KafkaRefusal,
            "topic flights: a topic's name has 1 to 249 letters",
        ),
    ],
)
def test_a_topic_that_the_broker_refuses_to_show(code: ErrorCode, failure: type, told: str) -> None:
    asked = cluster()
    asked.topics["flights"] = MetadataResponseTopic(name="flights", error_code=code)
    with pytest.raises(failure, match=told):
        find_topic(asked, "flights")


def test_the_partitions_are_those_chosen_or_all() -> None:
    flights = find_topic(cluster(), "flights")
    assert partitions_of(flights) == [TopicPartition("flights", n) for n in (0, 1, 2)]
    assert partitions_of(flights, [2, 0, 2]) == [TopicPartition("flights", n) for n in (0, 2)]
    with pytest.raises(PartitionUnknown, match="no partition 3: it has partitions 0 to 2"):
        partitions_of(flights, [1, 3])


def test_a_topic_is_created_as_told_and_otherwise_as_the_broker_likes() -> None:
    asked = cluster()
    assert create_topic(asked, "new", None, {"retention.ms": "5"}).num_partitions == 4
    create_topic(asked, "newer", 6, {})
    (_, first), (_, second) = asked.asked
    (new,), (newer,) = first.topics, second.topics
    assert (new.name, new.num_partitions, new.replication_factor) == ("new", -1, -1)
    assert [(config.name, config.value) for config in new.configs] == [("retention.ms", "5")]
    assert (newer.name, newer.num_partitions, newer.configs) == ("newer", 6, [])
    assert first.timeout_ms == 30_000
    assert not first.validate_only


def test_a_topic_that_is_not_created_says_why() -> None:
    with pytest.raises(KafkaRefusal, match="why"):
        create_topic(cluster(ErrorCode.INVALID_CONFIG), "new", 1, {})


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_grows_to_so_many_partitions(validate_only: bool) -> None:
    asked = cluster()
    add_partitions(asked, "flights", 5, validate_only=validate_only)
    ((_, request),) = asked.asked
    assert [(topic.name, topic.count, topic.assignments) for topic in request.topics] == [
        ("flights", 5, None)
    ]
    assert request.validate_only is validate_only


def test_a_topic_grows_unless_told() -> None:
    asked = cluster()
    add_partitions(asked, "flights", 5)
    assert asked.asked[0][1].validate_only is False
    with pytest.raises(KafkaRefusal, match="why"):
        add_partitions(cluster(ErrorCode.INVALID_PARTITIONS), "flights", 1)


def test_of_topics_to_delete_those_that_were_not_are_told_with_the_reason() -> None:
    refused = delete_topics(cluster(ErrorCode.TOPIC_AUTHORIZATION_FAILED), ["boats", "flights"])
    assert refused.keys() == {"boats"}
    assert "why" in refused["boats"]
    assert delete_topics(cluster(), ["boats", "flights"]) == {}
