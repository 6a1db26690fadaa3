"""What a broker is asked about configurations of topics, and what is made of its answer."""

import pytest

from siltstone.kafka_client.configs import ConfigSource, KnownConfig, change_configs, topic_configs
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from support.kafka.answering_cluster import AnsweringCluster

TOPIC = 2  # Kafka's number of this kind of resource


def cluster(code: ErrorCode = ErrorCode.NONE) -> AnsweringCluster:
    """Every topic has one configuration of its own."""

    def described(_: int, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        row = DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=1)
        rows = [
            DescribeConfigsResult(
                error_code=code,
                error_message="why",
                resource_type=TOPIC,
                resource_name=resource.resource_name,
                configs=[row],
            )
            for resource in request.resources
        ]
        return DescribeConfigsResponse(results=rows)

    def changed(_: int, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
        (resource,) = request.resources
        row = AlterConfigsResourceResponse(
            error_code=code, error_message="why", resource_type=TOPIC, resource_name=resource.resource_name
        )
        return IncrementalAlterConfigsResponse(responses=[row])

    return AnsweringCluster(
        answers={DescribeConfigsRequest: described, IncrementalAlterConfigsRequest: changed}
    )


def test_the_sources_are_kafka_s() -> None:
    """DescribeConfigsResponse.ConfigSource in Kafka's clients."""
    numbers = {source.name: source.value for source in ConfigSource}
    assert numbers == {
        "UNKNOWN": 0,
        "TOPIC": 1,
        "DYNAMIC_BROKER": 2,
        "DYNAMIC_CLUSTER": 3,
        "STATIC_BROKER": 4,
        "DEFAULT": 5,
        "DYNAMIC_BROKER_LOGGER": 6,
        "CLIENT_METRICS": 7,
        "GROUP": 8,
    }
    words = [ConfigSource(number).words for number in range(1, 6)]
    assert words == ["topic", "broker", "broker", "broker", "default"]


def test_each_topic_with_its_values_and_their_sources() -> None:
    asked = cluster()
    row = {"retention.ms": KnownConfig("retention.ms", "5", ConfigSource.TOPIC)}
    assert topic_configs(asked, ["a", "b"], ["retention.ms"]) == {"a": row, "b": row}
    ((_, request),) = asked.asked
    assert [
        (each.resource_type, each.resource_name, each.configuration_keys) for each in request.resources
    ] == [(TOPIC, "a", ["retention.ms"]), (TOPIC, "b", ["retention.ms"])]


def test_all_configurations_are_asked_for_with_none() -> None:
    asked = cluster()
    topic_configs(asked, ["a"])
    topic_configs(asked, ["a"], [])
    assert [request.resources[0].configuration_keys for _, request in asked.asked] == [None, []]


def test_many_topics_are_asked_for_in_several_requests() -> None:
    asked = cluster()
    names = [f"t{number}" for number in range(1_001)]
    assert list(topic_configs(asked, names)) == names
    assert [len(request.resources) for _, request in asked.asked] == [500, 500, 1]


def test_a_refusal_says_why() -> None:
    with pytest.raises(KafkaRefusal, match="why"):
        topic_configs(cluster(ErrorCode.TOPIC_AUTHORIZATION_FAILED), ["a"])
    with pytest.raises(KafkaRefusal, match="why"):
        change_configs(cluster(ErrorCode.INVALID_CONFIG), "a", {"x": "1"}, [])


def test_what_is_set_and_what_is_removed() -> None:
    asked = cluster()
    change_configs(asked, "a", {"x": "1"}, ["y"])
    change_configs(asked, "a", {}, ["y"], validate_only=True)
    (_, first), (_, second) = asked.asked
    (resource,) = first.resources
    assert (resource.resource_type, resource.resource_name) == (TOPIC, "a")
    assert [(each.name, each.config_operation, each.value) for each in resource.configs] == [
        ("x", 0, "1"),
        ("y", 1, None),
    ]
    assert [first.validate_only, second.validate_only] == [False, True]
