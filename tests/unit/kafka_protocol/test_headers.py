"""Headers in their versions; kafka-python's are the same bytes."""

import warnings

import pytest

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.compiling.primitives import varint
from siltstone.kafka_protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_prefix,
)
from siltstone.kafka_protocol.malformed import MalformedMessage, UnknownApi

with warnings.catch_warnings(
    action="ignore", category=DeprecationWarning
):  # its way of reading its own files
    from kafka.protocol.api_header import RequestHeader as TheirRequestHeader

LEGACY = RequestHeader(ApiKey.METADATA, 8, 7, "me")
FLEXIBLE = RequestHeader(ApiKey.METADATA, 9, 7, "me")
HEADERS = {
    "with a client id": (LEGACY, b"\x00\x03\x00\x08\x00\x00\x00\x07\x00\x02me"),
    "empty client id": (
        RequestHeader(ApiKey.METADATA, 8, 7, ""),
        b"\x00\x03\x00\x08\x00\x00\x00\x07\x00\x00",
    ),
    "null client id": (
        RequestHeader(ApiKey.METADATA, 8, -1, None),
        b"\x00\x03\x00\x08\xff\xff\xff\xff\xff\xff",
    ),
    "flexible": (FLEXIBLE, b"\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02me\x00"),
    "flexible, null client id": (
        RequestHeader(ApiKey.METADATA, 12, 7, None),
        b"\x00\x03\x00\x0c\x00\x00\x00\x07\xff\xff\x00",
    ),
    "never flexible": (
        RequestHeader(ApiKey.OFFSET_DELETE, 0, 7, "é"),
        b"\x00\x2f\x00\x00\x00\x00\x00\x07\x00\x02\xc3\xa9",
    ),
    "flexible, a version nobody speaks": (
        RequestHeader(ApiKey.API_VERSIONS, 99, 7, None),
        b"\x00\x12\x00\x63\x00\x00\x00\x07\xff\xff\x00",
    ),
}
EACH = pytest.mark.parametrize(("header", "written"), HEADERS.values(), ids=HEADERS)


@EACH
def test_both_ways(header: RequestHeader, written: bytes) -> None:
    assert encode_request_header(header) == written
    read, body = decode_request_header(memoryview(written + b"body"))
    assert read == header
    assert type(read.api_key) is ApiKey
    assert body == b"body"


@pytest.mark.parametrize("name", HEADERS)
def test_kafka_python_writes_the_same(name: str) -> None:
    header, written = HEADERS[name]
    theirs = TheirRequestHeader(
        request_api_key=header.api_key,
        request_api_version=header.api_version,
        correlation_id=header.correlation_id,
        client_id=header.client_id,
    )
    assert theirs.encode(flexible=name.startswith("flexible")) == written


@EACH
def test_cut_off_anywhere(header: RequestHeader, written: bytes) -> None:
    for size in range(len(written)):
        with pytest.raises(MalformedMessage, match=r"^request header: "):
            decode_request_header(memoryview(written[:size]))


def test_the_body_is_a_slice_of_the_frame() -> None:
    frame = bytearray(encode_request_header(LEGACY) + b"body")
    _, body = decode_request_header(memoryview(frame))
    frame[-1:] = b"Y"
    assert body == b"bodY"
    assert not body.readonly


def test_tagged_fields_are_skipped() -> None:
    written = encode_request_header(FLEXIBLE)[:-1] + b"\x02\x00\x03abc\x05\x00"
    assert decode_request_header(memoryview(written + b"body")) == (FLEXIBLE, b"body")
    with pytest.raises(MalformedMessage):
        decode_request_header(memoryview(written[:-1]))


def test_ab01_a_header_of_nothing_but_tagged_fields_is_refused() -> None:
    written = encode_request_header(FLEXIBLE)[:-1] + varint(10**6) + b"\x63\x00" * 10**6
    with pytest.raises(MalformedMessage, match="1000000 tagged fields at one place"):
        decode_request_header(memoryview(written))
    with pytest.raises(MalformedMessage, match="1001 tagged fields at one place"):
        decode_response_header(ApiKey.METADATA, 9, bytes(4) + varint(1_001) + b"\x63\x00" * 1_001)


def test_a_client_id_in_another_encoding_than_utf_8_is_shown_as_far_as_it_can_be() -> None:
    header, _ = decode_request_header(memoryview(b"\x00\x03\x00\x08\x00\x00\x00\x07\x00\x04caf\xe9"))
    assert header.client_id == "caf\N{REPLACEMENT CHARACTER}"


def test_a_client_id_longer_than_the_frame() -> None:
    with pytest.raises(MalformedMessage, match="client id of 3 bytes, 2 left"):
        decode_request_header(memoryview(b"\x00\x03\x00\x08\x00\x00\x00\x07\x00\x03me"))


@pytest.mark.parametrize("key", [-1, 4, 7, 999])
def test_apis_that_are_not_described(key: int) -> None:
    with pytest.raises(UnknownApi, match=f"api key {key} is unknown: use an API that is announced"):
        decode_request_header(
            memoryview(key.to_bytes(2, "big", signed=True) + b"\x00\x01\x00\x00\x00\x07\xff\xff")
        )


@pytest.mark.parametrize(
    ("key", "version", "prefix"),
    [
        (ApiKey.METADATA, 8, b"\x00\x00\x00\x0a\x00\x00\x00\x07"),
        (ApiKey.METADATA, 9, b"\x00\x00\x00\x0b\x00\x00\x00\x07\x00"),
        (ApiKey.OFFSET_DELETE, 0, b"\x00\x00\x00\x0a\x00\x00\x00\x07"),
        # A client cannot know yet what we speak (redpanda#296).
        (ApiKey.API_VERSIONS, 3, b"\x00\x00\x00\x0a\x00\x00\x00\x07"),
        (ApiKey.API_VERSIONS, 4, b"\x00\x00\x00\x0a\x00\x00\x00\x07"),
    ],
)
def test_response_prefix(key: ApiKey, version: int, prefix: bytes) -> None:
    assert response_prefix(key, version, 7, len(b"answer")) == prefix
    assert decode_response_header(key, version, prefix[4:] + b"answer") == (7, b"answer")


def test_a_response_header_that_is_cut_off() -> None:
    for size in range(5):
        with pytest.raises(MalformedMessage, match=r"^response header: "):
            decode_response_header(ApiKey.METADATA, 9, b"\x00\x00\x00\x07\x00"[:size])


def test_tagged_fields_of_a_response_header_are_skipped() -> None:
    frame = b"\x00\x00\x00\x07\x01\x09\x02xyanswer"
    assert decode_response_header(ApiKey.METADATA, 9, frame) == (7, b"answer")
