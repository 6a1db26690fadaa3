import pytest

from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from siltstone.kafka_protocol.metadata_fragments import encode_topic, encode_with_topics

BROKER = MetadataResponseBroker(node_id=3, host="kafka.example", port=9092, rack="r")
VERSIONS = range(MetadataResponse.versions[0], MetadataResponse.versions[1] + 1)


def topic(number: int, partitions: int = 2) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=number % 3,
        name=f"topic-{number}" * (number % 20),
        topic_id=number.to_bytes(16, "big"),
        is_internal=number % 2 == 0,
        partitions=[
            MetadataResponsePartition(
                partition_index=index, leader_epoch=number, replica_nodes=[3], isr_nodes=[3]
            )
            for index in range(partitions)
        ],
        topic_authorized_operations=number,
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("count", [0, 1, 2, 126, 127, 300])
def test_joined_as_the_codec_would_have_written_it(count: int, version: int) -> None:
    """126 and 127: where the count becomes a varint of two bytes."""
    response = MetadataResponse(
        throttle_time_ms=7,
        brokers=[BROKER, BROKER],
        cluster_id="an id",
        controller_id=3,
        topics=[topic(number) for number in range(count)],
        cluster_authorized_operations=99,
        error_code=5,
    )
    fragments = [encode_topic(one, version) for one in response.topics]
    assert encode_with_topics(response, fragments, version) == encode(response, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_ends_in_zeros_is_taken_whole(version: int) -> None:
    empty = MetadataResponseTopic(name="", partitions=[], topic_authorized_operations=0)
    response = MetadataResponse(topics=[empty, empty])
    fragments = [encode_topic(empty, version)] * 2
    assert encode_with_topics(MetadataResponse(), fragments, version) == encode(response, version)


def test_a_topic_without_name_where_there_may_be_none() -> None:
    nameless = MetadataResponseTopic(name=None)
    fragment = encode_topic(nameless, 12)
    assert encode_with_topics(MetadataResponse(), [fragment], 12) == encode(
        MetadataResponse(topics=[nameless]), 12
    )
