"""A text that a client may write is never too long to be read back, in any version of the request."""

import pytest

from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from siltstone.kafka_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from support.kafka.raw_calls import RawTopic, metadata_request
from support.kafka.raw_kafka import RawConnection

BROKER_SETTINGS: dict[str, str] = {}

LONGEST = 32_767
TOPIC = 2


@pytest.mark.parametrize("version", [2, 4, 5, 7])
@pytest.mark.parametrize("where", ["name", "value"])
def test_a_refusal_that_repeats_a_long_text(connection: RawConnection, version: int, where: str) -> None:
    config = {"name": "retention.ms", "value": "1"} | {where: "x" * LONGEST}
    asked = CreatableTopic(
        name="t", num_partitions=1, replication_factor=1, configs=[CreatableTopicConfig(**config)]
    )
    (row,) = connection.ask(CreateTopicsRequest(topics=[asked]), version).topics

    assert row.error_code == ErrorCode.INVALID_CONFIG
    assert 0 < len(row.error_message) < 2_000


@pytest.mark.parametrize("version", [1, 8, 9, 13])
def test_a_long_name_of_a_topic(connection: RawConnection, version: int) -> None:
    (row,) = connection.ask(metadata_request("x" * LONGEST), version).topics
    assert (row.error_code, row.name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, "x" * LONGEST)


def test_a_list_does_not_grow_beyond_what_can_be_told(connection: RawConnection, topic: RawTopic) -> None:
    name = "leader.replication.throttled.replicas"

    def append(value: str) -> int:
        config = AlterableConfig(name=name, config_operation=2, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic.name, configs=[config])
        answer = connection.ask(IncrementalAlterConfigsRequest(resources=[resource]), 0)
        return int(answer.responses[0].error_code)

    distinct = [",".join(f"{number}:{start}" for number in range(2_500)) for start in range(4)]
    errors = [append(value) for value in distinct]
    assert errors[0] == 0
    assert errors[-1] == ErrorCode.INVALID_CONFIG
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic.name, configuration_keys=[name]
    )
    for version in range(1, 5):
        (result,) = connection.ask(DescribeConfigsRequest(resources=[resource]), version).results
        assert len(result.configs[0].value) <= LONGEST
