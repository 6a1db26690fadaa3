"""Reads and changes configurations of topics; each value comes with its source: topic, broker or default."""

from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.failures import refuse_error
from siltstone.kafka_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TOPIC_RESOURCE = 2
SET, REMOVE = 0, 1
TOPICS_PER_REQUEST_MAX = 500
"""Keeps a response with all configurations of each topic within some hundred KiB."""


class ConfigSource(IntEnum):
    """The source of a value, by Kafka's numbers; of 1 to 5, a larger number is a more general source."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_CLUSTER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @property
    def words(self) -> str:
        return {ConfigSource.TOPIC: "topic", ConfigSource.DEFAULT: "default"}.get(self, "broker")


class KnownConfig(msgspec.Struct, frozen=True):
    name: str
    value: str | None
    source: ConfigSource


def topic_configs(
    cluster: Cluster, topics: Sequence[str], names: Sequence[str] | None = None
) -> dict[str, dict[str, KnownConfig]]:
    """Topic → name of the configuration → its effective value and source. ``names`` None: all configurations. Raises
    KafkaRefusal, KafkaNotReady."""
    found: dict[str, dict[str, KnownConfig]] = {}
    for begin in range(0, len(topics), TOPICS_PER_REQUEST_MAX):
        found |= _topic_configs(cluster, topics[begin : begin + TOPICS_PER_REQUEST_MAX], names)
    return found


def _topic_configs(
    cluster: Cluster, topics: Sequence[str], names: Sequence[str] | None
) -> dict[str, dict[str, KnownConfig]]:
    keys = None if names is None else list(names)
    resources = [
        DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=keys)
        for topic in topics
    ]
    answer = cluster.ask(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    found: dict[str, dict[str, KnownConfig]] = {}
    for result in answer.results:
        refuse_error(result.error_code, f"topic {result.resource_name}", result.error_message)
        found[result.resource_name] = {
            row.name: KnownConfig(row.name, row.value, ConfigSource(row.config_source))
            for row in result.configs
        }
    return found


def change_configs(
    cluster: Cluster,
    topic: str,
    assigned: Mapping[str, str],
    removed: Sequence[str],
    *,
    validate_only: bool = False,
) -> None:
    """Sets and removes configurations of one topic, all of them or none. Raises KafkaRefusal, KafkaNotReady."""
    configs = [
        AlterableConfig(name=name, config_operation=SET, value=value) for name, value in assigned.items()
    ]
    configs += [AlterableConfig(name=name, config_operation=REMOVE, value=None) for name in removed]
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    result = cluster.ask(request, IncrementalAlterConfigsResponse).responses[0]
    refuse_error(result.error_code, f"topic {topic}", result.error_message)
