"""Items 1 to 11 of docs/scenarios.md: negotiation and framing, byte for byte."""

import time
from collections.abc import Callable
from struct import pack, unpack_from

import pytest

from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsRequest
from siltstone.kafka_protocol.messages.describe_cluster import DescribeClusterRequest
from siltstone.kafka_protocol.messages.list_groups import ListGroupsRequest
from siltstone.kafka_protocol.messages.list_offsets import ListOffsetsTopic
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from support.kafka.message_oracles import kafka_python_reads, kio_reads
from support.kafka.raw_calls import (
    NOWHERE,
    RawTopic,
    batch_of,
    batches_in,
    fetch,
    fetch_request,
    fetched_rows,
    list_offsets_request,
    metadata_request,
    produce_request,
    produce_well,
    produced_rows,
)
from support.kafka.raw_kafka import Address, OracleCheckedConnection, RawConnection, framed, request_bytes

REQUEST_BYTES_MAX = 2_000_000
BROKER_SETTINGS = {"network.socket_request_max_bytes": str(REQUEST_BYTES_MAX)}

Connect = Callable[[], RawConnection]

API_VERSIONS, METADATA = int(ApiKey.API_VERSIONS), int(ApiKey.METADATA)
CLIENT_ID = pack(">h", 3) + b"raw"


def plain_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """Version 1: without tagged fields."""
    return pack(">hhi", api_key, version, correlation_id) + CLIENT_ID


# -- 1: ApiVersions in a version that is not spoken ----------------------------------------------------------


@pytest.mark.parametrize("version", [5, 127, 32_767, -1])
@pytest.mark.parametrize("body", [b"", b"\x0craw-client\x041.0\x00", b"\xff" * 40])
def test_item_01_an_unknown_version_of_api_versions_is_answered_in_version_0(
    connection: RawConnection, version: int, body: bytes
) -> None:
    tags = b"\x00" if version >= 3 else b""
    connection.send_frame(plain_header(API_VERSIONS, version, 77) + tags + body)

    # correlation id; UNSUPPORTED_VERSION; one row: ApiVersions from 0 to 4
    assert connection.receive_frame() == pack(">ihihhh", 77, 35, 1, API_VERSIONS, 0, 4)
    connection.assert_alive()


def test_item_01_the_row_is_what_the_client_asks_with_next(connection: RawConnection) -> None:
    connection.send_frame(plain_header(API_VERSIONS, 127, 1) + b"\x00")
    _, _, _, _, _, highest = unpack_from(">ihihhh", connection.receive_frame())
    asked = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    answer = connection.ask(asked, highest)

    assert {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys} == {
        int(key): versions for key, versions in ANNOUNCED.items()
    }


# -- 2: its response header ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(5))
def test_item_02_the_header_of_an_api_versions_response_has_never_tags(
    connection: RawConnection, version: int
) -> None:
    asked = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    connection.send_frame(request_bytes(asked, version, correlation_id=7))
    frame = connection.receive_frame()

    correlation_id, error = unpack_from(">ih", frame)
    (count,) = unpack_from(">i" if version < 3 else ">b", frame, 6)
    assert (correlation_id, error) == (7, 0)
    assert count == len(ANNOUNCED) + (version >= 3), "a byte of tags stands before it"


@pytest.mark.parametrize("reads", [kio_reads, kafka_python_reads])
@pytest.mark.parametrize("version", range(5))
def test_item_02_other_libraries_read_it(
    address: Address, version: int, reads: Callable[..., object]
) -> None:
    asked = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    with OracleCheckedConnection(address, reads) as connection:
        assert connection.ask(asked, version).error_code == 0


def test_item_02_no_feature_in_version_3_begins_at_0(connection: RawConnection) -> None:
    """KAFKA-17011: Java 3.x gives up when one does."""
    asked = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    answer = connection.ask(asked, 3)

    assert all(feature.min_version >= 1 for feature in answer.supported_features)


# -- 3: trailing bytes ---------------------------------------------------------------------------------------


def test_item_03_librdkafkas_metadata_13_with_three_bytes_too_many(
    connection: RawConnection, topic: RawTopic
) -> None:
    """Captured from librdkafka 2.16: all topics as four zero bytes instead of one, then its flags."""
    connection.prepared(MetadataRequest(topics=None), 13)
    correlation_id = connection.asked[-1][2]
    header = plain_header(METADATA, 13, correlation_id) + b"\x00"
    connection.send_frame(header + bytes.fromhex("00000000") + bytes.fromhex("010000"))
    answer = connection.receive()

    assert topic.name in [row.name for row in answer.topics]
    connection.assert_alive()


@pytest.mark.parametrize(("version", "rest"), [(0, b"\x00"), (8, b"\x01\x02\x03"), (12, b"\xff" * 100)])
def test_item_03_what_follows_a_body_is_ignored(connection: RawConnection, version: int, rest: bytes) -> None:
    connection.send_frame(connection.prepared(metadata_request("unknown"), version) + rest)

    assert [row.name for row in connection.receive().topics] == ["unknown"]
    connection.assert_alive()


# -- 4: tagged fields ----------------------------------------------------------------------------------------


def test_item_04_unknown_tagged_fields_are_skipped_wherever_they_stand(connection: RawConnection) -> None:
    tags = b"\x02" + b"\x63\x03abc" + b"\x80\x01\x00"  # two: 99 with three bytes, 128 with none
    name = b"\x08unknown"
    body = b"\x02" + bytes(16) + name + tags + b"\x00\x00" + tags
    connection.prepared(metadata_request("unknown"), 12)
    correlation_id = connection.asked[-1][2]
    connection.send_frame(plain_header(METADATA, 12, correlation_id) + tags + body)

    assert [row.name for row in connection.receive().topics] == ["unknown"]


def test_item_04_a_tagged_field_with_its_default_is_left_out(connection: RawConnection) -> None:
    asked = ApiVersionsRequest(client_software_name="raw", client_software_version="1.0")
    connection.send_frame(request_bytes(asked, 3))
    frame = connection.receive_frame()

    rows_end = 4 + 2 + 1 + len(ANNOUNCED) * 7
    assert frame[rows_end:] == bytes(4) + b"\x00"  # throttle time, and no tagged field


# -- 5: request headers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("client_id", [None, "", "raw", "ä" * 1_000])
@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_item_05_the_client_id_keeps_its_two_bytes_of_length(
    connection: RawConnection, version: int, client_id: str | None
) -> None:
    encoded = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(encoded)
    header = pack(">hhih", METADATA, version, 5, length) + encoded
    topics = pack(">i", 0) if version < 9 else b"\x01"
    flags_and_tags = bytes(4)  # as many as any version has
    connection.send_frame(header + (b"\x00" if version >= 9 else b"") + topics + flags_and_tags)

    assert connection.receive_frame()[:4] == pack(">i", 5)
    connection.assert_alive()


def test_item_05_a_client_id_that_is_no_utf_8_is_no_reason_to_close(connection: RawConnection) -> None:
    """Java replaces what it cannot read."""
    header = pack(">hhih", API_VERSIONS, 0, 5, 4) + b"caf\xe9"
    connection.send_frame(header)

    assert connection.receive_frame()[:4] == pack(">i", 5)


# -- 6: what is not spoken -----------------------------------------------------------------------------------


NOT_ANNOUNCED = (4, 17, 24, 68, 71, 76, 999, -1, 32_767)
BEYOND = [(0, 2), (0, 14), (1, 3), (1, 19), (2, 0), (9, 0), (METADATA, 14), (METADATA, -1)]


@pytest.mark.parametrize(("api_key", "version"), [*BEYOND, *((key, 0) for key in NOT_ANNOUNCED)])
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
    [
        pack(">i", -1),
        pack(">i", -(2**31)),
        pack(">i", 2**31 - 1),
        pack(">i", REQUEST_BYTES_MAX + 1),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /topics HTTP/1.1\r\n\r\n",
        bytes.fromhex("1603010200010001fc0303"),  # the ClientHello of TLS
    ],
    ids=["-1", "min", "max", "one-too-large", "GET", "POST", "TLS"],
)
def test_item_07_what_cannot_be_the_size_of_a_request_closes_at_once(connect: Connect, begin: bytes) -> None:
    connection, other = connect(), connect()
    connection.send_bytes(begin)

    connection.assert_closed()
    other.assert_alive()


@pytest.mark.parametrize("size", [0, 1, 7, 9])
def test_item_07_a_frame_too_small_for_its_header_closes(connection: RawConnection, size: int) -> None:
    connection.send_frame(request_bytes(ApiVersionsRequest(), 0)[:size])

    connection.assert_closed()


def test_item_07_a_request_of_the_largest_size_is_taken(connection: RawConnection) -> None:
    request = connection.prepared(ApiVersionsRequest(), 0)
    connection.send_frame(request + bytes(REQUEST_BYTES_MAX - len(request)))

    assert connection.receive().error_code == 0


@pytest.mark.parametrize(
    ("version", "length"),
    [(version, length) for version in (0, 8, 9, 13) for length in (2**31 - 1, 2**30, 100_000)]
    + [(0, -2), (9, -2)],
)
def test_item_07_an_array_longer_than_its_request_closes(connect: Connect, version: int, length: int) -> None:
    """Allocated by its word, it would be gigabytes."""
    connection, other = connect(), connect()
    is_flexible = version >= 9
    count = _varint((length + 1) % 2**32) if is_flexible else pack(">i", length)
    header = plain_header(METADATA, version, 1) + (b"\x00" if is_flexible else b"")
    began = time.monotonic()
    connection.send_frame(header + count + bytes(30))

    connection.assert_closed()
    assert time.monotonic() - began < 2
    other.assert_alive()


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def test_item_07_more_elements_than_a_request_may_have_close(connect: Connect) -> None:
    """Every one of them is there, and each would become an object."""
    connection, other = connect(), connect()
    connection.send_frame(plain_header(METADATA, 0, 1) + pack(">i", 100_001) + bytes(2 * 100_001))

    connection.assert_closed()
    other.assert_alive()


def test_item_07_a_request_may_come_byte_by_byte(connection: RawConnection) -> None:
    for byte in framed(connection.prepared(ApiVersionsRequest(), 0)):
        connection.send_bytes(bytes([byte]))

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
    assert time.monotonic() - began < 0.2
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
    reader.send_bytes(framed(reader.prepared(request, 11)) + framed(reader.prepared(ApiVersionsRequest(), 0)))
    assert not reader.has_answer_within(0.05)

    produce_well(writer, topic, batch_of())

    assert batches_in(fetched_rows(reader.receive())[0]) == [(0, 0)]
    assert reader.receive().error_code == 0


# -- 9: acks=0 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 7, 9, 13])
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
        lambda topic: produce_request(topic, {0: batch_of()}, acks=0, transactional_id="t"),
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


# -- 10: what the client says it is --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(
    ("name", "software_version", "error"),
    [
        ("apache-kafka-java", "4.3.0", 0),
        ("a", "1", 0),
        ("librdkafka", "v2.16.0-RC1-dirty", 0),
        ("", "1.0", 42),
        ("raw", "", 42),
        ("-raw", "1.0", 42),
        ("raw-", "1.0", 42),
        ("raw client", "1.0", 42),
        ("raw", "1.0\n", 42),
        ("räw", "1.0", 42),
    ],
)
def test_item_10_the_name_of_the_clients_software_is_checked(
    connection: RawConnection, version: int, name: str, software_version: str, error: int
) -> None:
    asked = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)

    assert connection.ask(asked, version).error_code == error
    connection.assert_alive()


# -- 11: where errors stand ----------------------------------------------------------------------------------


def test_item_11_each_partition_has_its_own_error(connection: RawConnection, topic: RawTopic) -> None:
    rows = produced_rows(connection.ask(produce_request(topic, {0: batch_of(), 5: batch_of()}), 9))
    assert [(row.index, row.error_code) for row in rows] == [(0, 0), (5, 3)]

    answer = connection.ask(fetch_request(topic, {0: 0, 5: 0}), 11)
    assert answer.error_code == 0
    assert [(row.index, row.error_code) for row in fetched_rows(answer)] == [(0, 0), (5, 3)]

    (listed,) = connection.ask(list_offsets_request(topic, {0: -1, 5: -1}), 7).topics
    assert [(row.partition_index, row.error_code) for row in listed.partitions] == [(0, 0), (5, 3)]


def test_item_11_the_same_topic_may_stand_in_a_request_more_than_once(
    connection: RawConnection, new_topic: Callable[..., RawTopic]
) -> None:
    topic = new_topic(2)
    request = list_offsets_request(topic, {0: -1})
    again = [*request.topics, ListOffsetsTopic(name=topic.name, partitions=request.topics[0].partitions)]
    other = list_offsets_request(topic, {1: -2}).topics

    answer = connection.ask(type(request)(replica_id=-1, topics=[*again, *other]), 7)
    errors = [row.error_code for of_topic in answer.topics for row in of_topic.partitions]
    assert errors == [42, 42, 0]
