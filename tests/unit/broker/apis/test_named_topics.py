"""A topic that one broker has created is known to every other one that is asked about it."""

from collections.abc import Callable
from typing import Any

import pytest

from siltstone.broker.apis.config_resources import ResourceType
from siltstone.broker.apis.named_topics import _NAMED
from siltstone.broker.topics.creating import NewTopic
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages import (
    alter_configs,
    create_partitions,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    elect_leaders,
    incremental_alter_configs,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
)
from support.broker.broker_cluster import in_broker_cluster
from support.scenarios import scenario

TOPIC = ResourceType.TOPIC.value
REQUESTS: dict[ApiKey, Callable[[Any], Any]] = {
    ApiKey.LIST_OFFSETS: lambda t: list_offsets.ListOffsetsRequest(
        topics=[
            list_offsets.ListOffsetsTopic(
                name=t.name, partitions=[list_offsets.ListOffsetsPartition(partition_index=0)]
            )
        ]
    ),
    ApiKey.METADATA: lambda t: metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name=t.name)], allow_auto_topic_creation=False
    ),
    ApiKey.OFFSET_COMMIT: lambda t: offset_commit.OffsetCommitRequest(
        group_id="g",
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                topic_id=t.topic_id,
                partitions=[offset_commit.OffsetCommitRequestPartition(partition_index=0)],
            )
        ],
    ),
    ApiKey.DELETE_TOPICS: lambda t: delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(name=None, topic_id=t.topic_id)]
    ),
    ApiKey.DELETE_RECORDS: lambda t: delete_records.DeleteRecordsRequest(
        topics=[
            delete_records.DeleteRecordsTopic(
                name=t.name, partitions=[delete_records.DeleteRecordsPartition(partition_index=0)]
            )
        ]
    ),
    ApiKey.DESCRIBE_CONFIGS: lambda t: describe_configs.DescribeConfigsRequest(
        resources=[
            describe_configs.DescribeConfigsResource(
                resource_type=TOPIC, resource_name=t.name, configuration_keys=None
            )
        ]
    ),
    ApiKey.ALTER_CONFIGS: lambda t: alter_configs.AlterConfigsRequest(
        resources=[alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=t.name, configs=[])]
    ),
    ApiKey.CREATE_PARTITIONS: lambda t: create_partitions.CreatePartitionsRequest(
        topics=[create_partitions.CreatePartitionsTopic(name=t.name, count=3, assignments=None)]
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda t: incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=TOPIC, resource_name=t.name, configs=[]
            )
        ]
    ),
    ApiKey.OFFSET_DELETE: lambda t: offset_delete.OffsetDeleteRequest(
        group_id="g",
        topics=[
            offset_delete.OffsetDeleteRequestTopic(
                name=t.name, partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
            )
        ],
    ),
    ApiKey.DESCRIBE_PRODUCERS: lambda t: describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=t.name, partition_indexes=[0])]
    ),
    ApiKey.ELECT_LEADERS: lambda t: elect_leaders.ElectLeadersRequest(
        topic_partitions=[elect_leaders.TopicPartitions(topic=t.name, partitions=[0])]
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda t: describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[describe_topic_partitions.TopicRequest(name=t.name)]
    ),
    ApiKey.DESCRIBE_LOG_DIRS: lambda t: describe_log_dirs.DescribeLogDirsRequest(
        topics=[describe_log_dirs.DescribableLogDirTopic(topic=t.name, partitions=[0])]
    ),
}
UNKNOWN = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}


def codes_in(value: Any) -> set[int]:
    """Every error code of a response, however deep."""
    if isinstance(value, list):
        return {code for each in value for code in codes_in(each)}
    names = getattr(value, "__struct_fields__", ())
    own = {value.error_code} if "error_code" in names else set()
    return own.union(*(codes_in(getattr(value, name)) for name in names))


def test_every_api_of_the_table_is_tried() -> None:
    assert REQUESTS.keys() == _NAMED.keys()


@pytest.mark.parametrize("api", REQUESTS, ids=lambda api: api.name.lower())
@scenario(in_broker_cluster)
async def test_a_broker_knows_what_another_one_has_just_created(cluster: Any, api: ApiKey) -> None:
    await cluster.topic("there")
    first, second = cluster.nodes
    made = await first.parts.creation.create(NewTopic(name="new", partition_count=2, leaders=(1, 1)))
    assert second.parts.topics.by_name("new") is None, "or this test shows nothing"
    response = await second.client().ask(REQUESTS[api](made))
    assert not codes_in(response) & UNKNOWN, response


@scenario(in_broker_cluster, count=1)
async def test_a_broker_alone_reads_no_log_for_a_topic_that_is_not_there(cluster: Any) -> None:
    (alone,) = cluster.nodes
    reads = alone.log.heads
    request = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(name="not-there")], allow_auto_topic_creation=False
    )
    response = await alone.client().ask(request)
    assert codes_in(response) & UNKNOWN
    assert alone.log.heads == reads
