"""Produce: records of a request are slices of the received frame and are not copied; answers by hand."""

import pytest

from siltstone.kafka_protocol.codec import decode, decode_in_place, encode
from siltstone.kafka_protocol.malformed import MalformedMessage, UnencodableMessage, UnknownVersion
from siltstone.kafka_protocol.messages.produce import (
    CurrentLeader,
    NodeEndpoint,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    RecordError,
)
from siltstone.kafka_protocol.notation import NO_UUID, Message
from support.kafka.message_oracles import kio_reads, numbers_left_out, plain
from support.kafka.message_strategies import full_message

VERSIONS = range(3, 14)
TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("message", [ProduceRequest, ProduceResponse])
def test_another_library_reads_and_writes_the_same(message: type[Message], version: int) -> None:
    full = full_message(message, version)
    body = encode(full, version)
    assert kio_reads(message, version, body) == (plain(full, version), body)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("message", [ProduceRequest, ProduceResponse])
def test_numbers_that_are_left_out_are_those_of_kafkas_schema(message: type[Message], version: int) -> None:
    ours, theirs = numbers_left_out(message, version)
    ours_only = {"ProducedPartition.base_offset": -1} if message is ProduceResponse else {}
    assert ours == theirs | ours_only and len(ours) > 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request(version: int) -> None:
    body = encode(
        ProduceRequest(
            transactional_id="t",
            acks=-1,
            timeout_ms=30_000,
            topics=[
                ProduceTopic(
                    name="logs",
                    topic_id=TOPIC_ID,
                    partitions=[
                        ProducePartition(index=1, records=b"batch"),
                        ProducePartition(index=2, records=None),
                    ],
                )
            ],
        ),
        version,
    )
    partitions = [ProducePartition(index=1, records=b"batch"), ProducePartition(index=2, records=None)]
    by_id = version >= 13
    topic = ProduceTopic(
        name="" if by_id else "logs", topic_id=TOPIC_ID if by_id else NO_UUID, partitions=partitions
    )
    asked = ProduceRequest(transactional_id="t", acks=-1, timeout_ms=30_000, topics=[topic])
    assert decode_in_place(ProduceRequest, version, body + b"trailing") == asked
    assert encode(asked, version) == body


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_slices_of_the_request_and_can_be_patched(version: int) -> None:
    topic = ProduceTopic(name="t", partitions=[ProducePartition(records=b"batch")])
    frame = bytearray(encode(ProduceRequest(topics=[topic]), version))
    records = decode_in_place(ProduceRequest, version, memoryview(frame)).topics[0].partitions[0].records
    assert isinstance(records, memoryview)
    records[0:1] = b"B"
    assert b"Batch" in frame


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_of_a_response(version: int) -> None:
    theirs = full_message(ProduceResponse, version)
    body = encode(theirs, version)
    assert encode(decode(ProduceResponse, version, body), version) == body


def test_a_response() -> None:
    response = ProduceResponse(
        topics=[
            ProducedTopic(
                name="logs",
                partitions=[
                    ProducedPartition(index=0, base_offset=42, log_append_time_ms=-1, log_start_offset=3),
                    ProducedPartition(
                        index=1,
                        error_code=87,
                        record_errors=[RecordError(batch_index=2, message="no key")],
                        error_message="refused",
                        current_leader=CurrentLeader(leader_id=5, leader_epoch=6),
                    ),
                ],
            )
        ],
        node_endpoints=[NodeEndpoint(node_id=5, host="h", port=9092, rack=None)],
    )
    body = encode(response, 10)
    read = decode(ProduceResponse, 10, body)
    well, refused = read.topics[0].partitions
    assert (well.index, well.base_offset, well.log_append_time_ms, well.log_start_offset) == (0, 42, -1, 3)
    assert (well.error_code, well.record_errors, well.error_message) == (0, [], None)
    assert (refused.error_code, refused.base_offset, refused.error_message) == (87, -1, "refused")
    assert refused.record_errors == [RecordError(batch_index=2, message="no key")]
    assert refused.current_leader == CurrentLeader(leader_id=5, leader_epoch=6)
    assert read.node_endpoints == [NodeEndpoint(node_id=5, host="h", port=9092, rack=None)]
    assert read.throttle_time_ms == 0


def test_the_smallest_answers_by_hand() -> None:
    row = ProducedPartition(index=1, base_offset=2)
    response = ProduceResponse(topics=[ProducedTopic(name="t", partitions=[row])])
    no_times = b"\xff" * 16
    offsets = b"\x00\x00\x00\x01" + b"\x00\x00" + b"\x00\x00\x00\x00\x00\x00\x00\x02" + no_times
    assert encode(response, 7) == (
        b"\x00\x00\x00\x01" + b"\x00\x01t" + b"\x00\x00\x00\x01" + offsets + b"\x00\x00\x00\x00"
    )
    assert encode(response, 9) == (
        b"\x02" + b"\x02t" + b"\x02" + offsets + b"\x01\x00\x00" + b"\x00" + b"\x00\x00\x00\x00" + b"\x00"
    )


def test_versions_0_to_2_are_announced_and_not_spoken() -> None:
    for version in (0, 1, 2, 14):
        with pytest.raises(UnknownVersion):
            decode_in_place(ProduceRequest, version, b"")
        with pytest.raises(UnknownVersion):
            encode(ProduceResponse(), version)


def test_damage() -> None:
    body = encode(ProduceRequest(topics=[ProduceTopic(partitions=[ProducePartition(records=b"batch")])]), 9)
    for size in range(len(body)):
        with pytest.raises(MalformedMessage, match=r"^ProduceRequest v9: "):
            decode_in_place(ProduceRequest, 9, memoryview(body)[:size])
    with pytest.raises(UnencodableMessage):
        encode(ProduceResponse(throttle_time_ms=1 << 31), 9)
