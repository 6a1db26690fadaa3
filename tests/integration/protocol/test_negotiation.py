"""Items 1 to 9 of docs/scenarios.md, as far as a socket shows them: negotiation, limits, order, and when it closes."""

import time
from collections.abc import Callable
from struct import pack

import pytest

from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.messages.describe_cluster import DescribeClusterRequest
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from support.kafka.message_oracles import kafka_python_reads, kio_reads
from support.kafka.raw_calls import (
    NOWHERE,
    RawTopic,
    batch_of,
    batches_in,
    fetch,
    fetch_request,
    fetched_rows,
    metadata_request,
    produce_request,
    produce_well,
    produced_rows,
    sequenced,
)
from support.kafka.raw_kafka import Address, OracleCheckedConnection, RawConnection, framed

REQUEST_BYTES_MAX = 2_000_000
BROKER_SETTINGS = {"network.socket_request_max_bytes": str(REQUEST_BYTES_MAX)}

Connect = Callable[[], RawConnection]

API_VERSIONS, METADATA = int(ApiKey.API_VERSIONS), int(ApiKey.METADATA)
CLIENT_ID = pack(">h", 3) + b"raw"


def plain_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Version 1: without tagged fields."""
    return pack(">hhi", api_key, version, correlation_id) + CLIENT_ID


# -- 1: ApiVersions in a version that is not spoken ----------------------------------------------------------


def test_item_01_an_unknown_version_is_answered_in_version_0_and_the_client_asks_again(
    connection: RawConnection,
) -> None:
    connection.send_frame(plain_header(API_VERSIONS, 127, 77) + b"\x00" + b"\xff" * 40)

    # correlation id; UNSUPPORTED_VERSION; one row: ApiVersions from 0 to 4
    assert connection.receive_frame() == pack(">ihihhh", 77, 35, 1, API_VERSIONS, 0, 4)
    asked = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    rows = connection.ask(asked, 4).api_keys
    assert {row.api_key: (row.min_version, row.max_version) for row in rows} == dict(ANNOUNCED)


# -- 2: its response header ----------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", [kio_reads, kafka_python_reads])
@pytest.mark.parametrize("version", range(5))
def test_item_02_other_libraries_read_it(
    address: Address, version: int, reads: Callable[..., object]
) -> None:
    asked = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    with OracleCheckedConnection(address, reads) as connection:
        assert connection.ask(asked, version).error_code == 0


# -- 6: what is not spoken -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("api_key", "version"), [(METADATA, 14), (999, 0)])
def test_item_06_an_api_or_version_that_is_not_spoken_closes_the_connection(
    connect: Connect, api_key: int, version: int
) -> None:
    connection, other = connect(), connect()
    connection.send_frame(plain_header(api_key, version, 1) + bytes(20))

    connection.assert_closed()
    other.assert_alive()


def test_item_06_answers_before_it_are_still_given(connection: RawConnection) -> None:
    first = connection.prepared(ApiVersionsRequest(), 0)
    connection.send_bytes(framed(first) + framed(plain_header(999, 0, 2)) + framed(first))

    assert connection.receive().error_code == 0
    connection.assert_closed()


# -- 7: sizes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "begin",
    [pack(">i", -1), pack(">i", REQUEST_BYTES_MAX + 1), b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
    ids=["negative", "one-too-large", "HTTP"],
)
def test_item_07_what_cannot_be_the_size_of_a_request_closes_at_once(connect: Connect, begin: bytes) -> None:
    connection, other = connect(), connect()
    connection.send_bytes(begin)

    connection.assert_closed()
    other.assert_alive()


def test_item_07_a_request_of_the_largest_size_is_taken(connection: RawConnection) -> None:
    request = connection.prepared(ApiVersionsRequest(), 0)
    connection.send_frame(request + bytes(REQUEST_BYTES_MAX - len(request)))

    assert connection.receive().error_code == 0


# -- 8: order ------------------------------------------------------------------------------------------------


def test_item_08_answers_leave_in_the_order_of_requests_around_a_long_poll(
    connection: RawConnection, topic: RawTopic
) -> None:
    requests = [
        (produce_request(topic, {0: batch_of()}), 9),
        (ApiVersionsRequest(), 0),
        (fetch_request(topic, {0: 1}, wait_ms=200), 11),
        (metadata_request(topic.name), 9),
        (produce_request(topic, {0: batch_of()}), 7),
        (DescribeClusterRequest(), 0),
        (ListGroupsRequest(), 0),
    ]
    frames = b"".join(framed(connection.prepared(request, version)) for request, version in requests)
    began = time.monotonic()
    connection.send_bytes(frames)

    assert produced_rows(connection.receive())[0].base_offset == 0
    connection.receive()
    polled = connection.receive()
    assert time.monotonic() - began >= 0.2, (
        "what follows a long poll waits for it: it could not have seen this"
    )
    assert fetched_rows(polled)[0].high_watermark == 1
    assert connection.receive().topics[0].name == topic.name
    assert produced_rows(connection.receive())[0].base_offset == 1
    connection.receive()
    connection.receive()


def test_item_08_pipelined_produces_are_answered_in_order(connection: RawConnection, topic: RawTopic) -> None:
    frames = [
        framed(connection.prepared(produce_request(topic, {0: batch_of(number + 1)}), 9))
        for number in range(20)
    ]
    connection.send_bytes(b"".join(frames))
    offsets = [produced_rows(connection.receive())[0].base_offset for _ in frames]

    assert offsets == [number * (number + 1) // 2 for number in range(20)]


def test_item_08_a_long_poll_is_ended_by_another_connection_and_then_what_follows_it_is_answered(
    connect: Connect, topic: RawTopic
) -> None:
    reader, writer = connect(), connect()
    request = fetch_request(topic, {0: 0}, wait_ms=60_000)
    asked = (ApiVersionsRequest(), 0), (request, 11), (ApiVersionsRequest(), 0)
    reader.send_bytes(b"".join(framed(reader.prepared(*each)) for each in asked))
    assert reader.receive().error_code == 0, "what comes before a long poll does not wait for it"
    assert not reader.has_answer_within(0.05)

    produce_well(writer, topic, batch_of())

    assert batches_in(fetched_rows(reader.receive())[0]) == [(0, 0)]
    assert reader.receive().error_code == 0


# -- 9: acks=0 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 13])
def test_item_09_acks_0_is_not_answered(connection: RawConnection, topic: RawTopic, version: int) -> None:
    request = produce_request(topic, {0: batch_of(3)}, acks=0)
    silent = connection.prepared(request, version, has_answer=False)
    asked = connection.prepared(ApiVersionsRequest(), 0)
    connection.send_bytes(framed(silent) + framed(asked) + framed(silent))

    assert connection.receive().error_code == 0
    assert fetch(connection, topic, 3, wait_ms=2_000).high_watermark == 6


@pytest.mark.parametrize(
    "request_of",
    [
        lambda topic: produce_request(NOWHERE, {0: batch_of()}, acks=0),
        lambda topic: produce_request(topic, {7: batch_of()}, acks=0),
        lambda topic: produce_request(topic, {0: batch_of()[:-1]}, acks=0),
        lambda topic: produce_request(topic, {0: batch_of(value_bytes=2_000)}, acks=0),
        lambda topic: produce_request(topic, {0: None}, acks=0),
        lambda topic: produce_request(topic, {0: sequenced((1, 0), 0, attributes=TRANSACTIONAL_BIT)}, acks=0),
    ],
    ids=["unknown-topic", "unknown-partition", "damaged", "too-large", "nothing", "transactional"],
)
def test_item_09_acks_0_that_fails_closes_the_connection(
    connect: Connect,
    new_topic: Callable[..., RawTopic],
    request_of: Callable[[RawTopic], object],
) -> None:
    topic = new_topic(**{"max.message.bytes": "1000"})
    connection, other = connect(), connect()
    connection.send_frame(connection.prepared(request_of(topic), 9, has_answer=False))

    connection.assert_closed()
    assert fetch(other, topic, 0).high_watermark == 0
