"""Fetch: the records of an answer are pieces of their own and are not joined; rows by hand."""

import pytest

from siltstone.kafka_protocol.codec import decode, encode, encode_pieces
from siltstone.kafka_protocol.malformed import MalformedMessage, UnencodableMessage, UnknownVersion
from siltstone.kafka_protocol.messages.fetch import (
    AbortedTransaction,
    CurrentLeader,
    EpochEndOffset,
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    NodeEndpoint,
    SnapshotId,
)
from siltstone.kafka_protocol.notation import Message
from support.kafka.message_oracles import kio_reads, numbers_left_out, plain
from support.kafka.message_strategies import full_message

VERSIONS = range(4, 19)
TOPIC_ID = bytes(range(16))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("message", [FetchRequest, FetchResponse])
def test_another_library_reads_and_writes_the_same(message: type[Message], version: int) -> None:
    full = full_message(message, version)
    body = encode(full, version)
    assert kio_reads(message, version, body) == (plain(full, version), body)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("message", [FetchRequest, FetchResponse])
def test_numbers_that_are_left_out_are_those_of_kafkas_schema(message: type[Message], version: int) -> None:
    ours, theirs = numbers_left_out(message, version)
    ours_only = {"FetchedPartition.high_watermark": -1} if message is FetchResponse else {}
    assert ours == theirs | ours_only and len(ours) > 1


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_of_a_request(version: int) -> None:
    body = encode(full_message(FetchRequest, version), version)
    assert encode(decode(FetchRequest, version, body + b"trailing"), version) == body


def test_a_request() -> None:
    body = encode(
        FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=2,
            isolation_level=1,
            session_id=3,
            session_epoch=4,
            topics=[
                FetchTopic(
                    name="logs",
                    partitions=[
                        FetchPartition(
                            index=5,
                            current_leader_epoch=6,
                            fetch_offset=7,
                            last_fetched_epoch=8,
                            log_start_offset=9,
                            bytes_max=10,
                        )
                    ],
                )
            ],
            forgotten_topics=[ForgottenTopic(name="old", partitions=[11, 12])],
            rack_id="r",
        ),
        12,
    )
    partition = FetchPartition(
        index=5,
        current_leader_epoch=6,
        fetch_offset=7,
        last_fetched_epoch=8,
        log_start_offset=9,
        bytes_max=10,
    )
    assert decode(FetchRequest, 12, body) == FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=2,
        isolation_level=1,
        session_id=3,
        session_epoch=4,
        topics=[FetchTopic(name="logs", partitions=[partition])],
        forgotten_topics=[ForgottenTopic(name="old", partitions=[11, 12])],
        rack_id="r",
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_every_field_of_a_response(version: int) -> None:
    body = encode(full_message(FetchResponse, version), version)
    assert b"".join(encode_pieces(decode(FetchResponse, version, body), version)) == body


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_pieces_of_their_own(version: int) -> None:
    batches = [memoryview(b"first"), memoryview(b"second"), b"third"]
    partitions = [
        FetchedPartition(index=1, records=batches[:2]),
        FetchedPartition(index=2, records=[]),
        FetchedPartition(index=3, records=batches[2:]),
    ]
    response = FetchResponse(topics=[FetchedTopic(name="t", topic_id=TOPIC_ID, partitions=partitions)])
    pieces = encode_pieces(response, version)
    assert [piece for piece in pieces if any(piece is batch for batch in batches)] == batches
    read = decode(FetchResponse, version, b"".join(pieces)).topics[0]
    assert [partition.records for partition in read.partitions] == [[b"firstsecond"], [], [b"third"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_records_are_empty_and_not_null(version: int) -> None:
    response = FetchResponse(topics=[FetchedTopic(partitions=[FetchedPartition()])])
    body = b"".join(encode_pieces(response, version))
    assert decode(FetchResponse, version, body).topics[0].partitions[0].records == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("aborted", [None, [], [AbortedTransaction(producer_id=1, first_offset=2)]])
def test_aborted_transactions_are_null_or_a_list(
    version: int, aborted: list[AbortedTransaction] | None
) -> None:
    partition = FetchedPartition(aborted_transactions=aborted)
    body = b"".join(encode_pieces(FetchResponse(topics=[FetchedTopic(partitions=[partition])]), version))
    read = decode(FetchResponse, version, body).topics[0].partitions[0].aborted_transactions
    expected = [AbortedTransaction(producer_id=1, first_offset=2)]
    assert read == (expected if aborted else aborted)


def test_where_to_go_instead() -> None:
    partition = FetchedPartition(
        error_code=6,
        diverging_epoch=EpochEndOffset(epoch=1, end_offset=2),
        current_leader=CurrentLeader(leader_id=3, leader_epoch=4),
        snapshot_id=SnapshotId(end_offset=5, epoch=6),
    )
    response = FetchResponse(
        topics=[FetchedTopic(partitions=[partition])],
        node_endpoints=[NodeEndpoint(node_id=3, host="h", port=9092, rack="r")],
    )
    read = decode(FetchResponse, 16, b"".join(encode_pieces(response, 16)))
    row = read.topics[0].partitions[0]
    assert row.error_code == 6
    assert row.diverging_epoch == EpochEndOffset(epoch=1, end_offset=2)
    assert row.current_leader == CurrentLeader(leader_id=3, leader_epoch=4)
    assert row.snapshot_id == SnapshotId(end_offset=5, epoch=6)
    assert read.node_endpoints == [NodeEndpoint(node_id=3, host="h", port=9092, rack="r")]


def test_a_row_by_hand() -> None:
    row = FetchedPartition(
        index=1, high_watermark=3, last_stable_offset=3, log_start_offset=0, records=[b"ab", b"c"]
    )
    response = FetchResponse(topics=[FetchedTopic(topic_id=TOPIC_ID, partitions=[row])])
    head = bytes(4) + bytes(2) + bytes(4) + b"\x02" + TOPIC_ID + b"\x02"
    offsets = b"\x00\x00\x00\x01" + bytes(2) + bytes(7) + b"\x03" + bytes(7) + b"\x03" + bytes(8)
    assert encode_pieces(response, 17) == [
        head + offsets + b"\x00" + b"\xff\xff\xff\xff" + b"\x04",
        b"ab",
        b"c",
        b"\x00" + b"\x00" + b"\x00",
    ]


def test_damage() -> None:
    body = encode(FetchRequest(topics=[FetchTopic(name="t", partitions=[FetchPartition()])]), 12)
    for size in range(len(body)):
        with pytest.raises(MalformedMessage, match=r"^FetchRequest v12: "):
            decode(FetchRequest, 12, memoryview(body)[:size])
    with pytest.raises(UnencodableMessage):
        encode_pieces(FetchResponse(throttle_time_ms=1 << 31), 12)
    for version in (3, 19):
        with pytest.raises(UnknownVersion):
            decode(FetchRequest, version, body)
