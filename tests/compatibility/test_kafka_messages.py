"""Messages as they have to look on the wire for ever, whatever becomes of the descriptions and the compiler.

The hex files were written by kafka-python 3.0.12 and by kio 0.6.5, which agreed; not by our encoders.
"""

from pathlib import Path

import pytest

from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from siltstone.kafka_protocol.messages.fetch import (
    AbortedTransaction,
    CurrentLeader,
    EpochEndOffset,
    FetchedPartition,
    FetchedTopic,
    FetchResponse,
    NodeEndpoint,
)
from siltstone.kafka_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from siltstone.kafka_protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from siltstone.kafka_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from siltstone.kafka_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from siltstone.kafka_protocol.notation import Message

TOPIC_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
BROKER = MetadataResponseBroker(node_id=1, host="silt", port=9092, rack="r1")
PARTITION = MetadataResponsePartition(partition_index=3, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1])
TOPIC = MetadataResponseTopic(name="stöne", partitions=[PARTITION])
DATA = ProducePartition(index=2, records=b"not looked at")
ABORTED = AbortedTransaction(producer_id=8, first_offset=9)
FETCHED = FetchedPartition(
    index=2, high_watermark=5, last_stable_offset=4, aborted_transactions=[], records=[b"batch"]
)

MESSAGES: dict[str, tuple[int, Message]] = {
    "api_versions_request": (
        3,
        ApiVersionsRequest(client_software_name="lib", client_software_version="2.16.1"),
    ),
    "api_versions_response": (
        3,
        ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)],
            supported_features=[SupportedFeatureKey(name="group.version", min_version=1, max_version=1)],
            finalized_features_epoch=7,
            finalized_features=[
                FinalizedFeatureKey(name="group.version", max_version_level=1, min_version_level=1)
            ],
        ),
    ),
    "metadata_response_legacy": (1, MetadataResponse(brokers=[BROKER], controller_id=1, topics=[TOPIC])),
    "metadata_response_flexible": (
        13,
        MetadataResponse(
            throttle_time_ms=5,
            brokers=[BROKER, MetadataResponseBroker(node_id=2, host="h" * 127, port=1, rack=None)],
            cluster_id="cluster",
            controller_id=1,
            topics=[
                MetadataResponseTopic(
                    name=None,
                    error_code=100,
                    topic_id=TOPIC_ID,
                    is_internal=True,
                    partitions=[PARTITION],
                    topic_authorized_operations=0x5F8,
                )
            ],
        ),
    ),
    "produce_request_legacy": (
        3,
        ProduceRequest(acks=1, timeout_ms=9, topics=[ProduceTopic(name="t", partitions=[DATA])]),
    ),
    "produce_request_flexible": (
        13,
        ProduceRequest(
            transactional_id="x",
            acks=-1,
            timeout_ms=30_000,
            topics=[ProduceTopic(topic_id=TOPIC_ID, partitions=[DATA, ProducePartition(records=None)])],
        ),
    ),
    "fetch_response_legacy": (
        4,
        FetchResponse(topics=[FetchedTopic(name="t", partitions=[FETCHED])]),
    ),
    "fetch_response_flexible": (
        17,
        FetchResponse(
            session_id=77,
            topics=[
                FetchedTopic(
                    topic_id=TOPIC_ID,
                    partitions=[
                        FETCHED,
                        FetchedPartition(
                            error_code=6,
                            high_watermark=0,
                            diverging_epoch=EpochEndOffset(epoch=1, end_offset=2),
                            current_leader=CurrentLeader(leader_id=3, leader_epoch=4),
                            aborted_transactions=[ABORTED],
                        ),
                    ],
                )
            ],
            node_endpoints=[NodeEndpoint(node_id=3, host="silt", port=9092, rack=None)],
        ),
    ),
    "join_group_request": (
        9,
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=300_000,
            member_id="m",
            group_instance_id=None,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00\x01")],
            reason="",
        ),
    ),
    "offset_fetch_request_legacy": (
        5,
        OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 7])]
        ),
    ),
    "offset_fetch_request_flexible": (
        10,
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g",
                    member_id="m",
                    member_epoch=4,
                    topics=[OffsetFetchRequestTopics(topic_id=TOPIC_ID, partition_indexes=[0, 7])],
                ),
                OffsetFetchRequestGroup(group_id="h", topics=None),
            ],
            require_stable=True,
        ),
    ),
}


def golden(name: str) -> bytes:
    return bytes.fromhex((Path(__file__).parent / "golden" / "kafka_messages" / f"{name}.hex").read_text())


@pytest.mark.parametrize("name", MESSAGES)
def test_on_the_wire_for_ever(name: str) -> None:
    version, message = MESSAGES[name]
    assert decode(type(message), version, golden(name)) == message
    assert encode(message, version) == golden(name)


def test_every_file_is_looked_at() -> None:
    assert {
        path.stem for path in (Path(__file__).parent / "golden" / "kafka_messages").iterdir()
    } == MESSAGES.keys()
