"""The frame of a response, and what a handler knows of a request."""

from struct import pack

import pytest

from siltstone.broker.request import ConnectionContext, Listener, RequestContext, frame_of
from siltstone.kafka_protocol.api_key import ApiKey
from support.values.left_out import numbers_left_out

LISTENER = Listener("PLAINTEXT", "kafka.example", 9092)


def context(version: int) -> RequestContext:
    connection = ConnectionContext(4, "client.example", LISTENER)
    return RequestContext(connection, ApiKey.METADATA, version, 7, "a client")


@pytest.mark.parametrize(("version", "tags"), [(8, b""), (9, b"\0")])
def test_a_frame_begins_with_its_size_and_the_id_of_its_request(version: int, tags: bytes) -> None:
    """The size counts everything behind it; the header of a flexible version has tagged fields."""
    prefix, *body = frame_of(context(version), b"abc", memoryview(b"de"))
    assert bytes(prefix) == pack(">ii", 4 + len(tags) + 5, 7) + tags
    assert body == [b"abc", b"de"]


def test_a_frame_without_a_body() -> None:
    assert [bytes(part) for part in frame_of(context(8))] == [pack(">ii", 4, 7)]


def test_a_request_knows_the_host_of_its_connection() -> None:
    assert context(8).client_host == "client.example"


def test_two_connections_are_two_however_alike() -> None:
    one, other = (ConnectionContext(1, "h", LISTENER) for _ in range(2))
    assert one != other and len({one, other}) == 2


def test_what_is_left_out() -> None:
    assert numbers_left_out(ConnectionContext) == {
        "sends_records": False,
        "client_port": 0,
        "connected_ms": 0,
        "requests_held": 0,
        "is_told": False,
    }
