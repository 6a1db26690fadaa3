"""Our codec against Kafka's own message classes: the same schema and the same bytes, for every API and version.

Java decides. The schemas catch what a description says wrongly, nullability included; the bytes catch what the codec
does wrongly with it, tagged fields included.
"""

import random
import struct
from collections.abc import Iterator

import pytest

from oracles.java_messages import JavaMessages, running_java_messages
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.headers import RequestHeader, encode_request_header, response_prefix
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.notation import Message
from support.kafka.kafka_oracles import or_skip
from support.kafka.wire_messages import java_schema, message_of_kafka, to_java_json

EXAMPLES = 2

MESSAGES = [message for pair in CATALOGUE.values() for message in pair]

# The first to need Kafka's jars fetches them.
pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaMessages]:
    with or_skip(running_java_messages) as found:
        yield found


def versions_of(message: type[Message]) -> range:
    lowest, highest = message.versions
    return range(lowest, highest + 1)


def test_there_is_something_to_compare() -> None:
    assert len(MESSAGES) > 50
    assert sum(len(versions_of(message)) for message in MESSAGES) > 300


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_the_schema_is_java_s(java: JavaMessages, message: type[Message]) -> None:
    theirs = java.schemas(message.__name__)
    ours = {version: java_schema(message, version) for version in versions_of(message)}
    # Records are bytes to us.
    assert ours == {version: theirs[version].replace("RECORDS", "BYTES") for version in ours}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_the_bytes_are_java_s(java: JavaMessages, message: type[Message]) -> None:
    rng = random.Random(message.__name__)
    for version in versions_of(message):
        for _ in range(EXAMPLES):
            built = message_of_kafka(message, version, rng)
            theirs = java.encode(message.__name__, version, to_java_json(built, version))
            assert encode(built, version).hex(" ") == theirs.hex(" "), (version, built)
            assert decode(message, version, memoryview(theirs)) == built
            java.decode(message.__name__, version, theirs)


def test_the_versions_announced_are_java_s(java: JavaMessages) -> None:
    theirs = {api.api_key: (api.lowest_version, api.highest_stable_version) for api in java.apis()}
    theirs[ApiKey.PRODUCE] = (0, theirs[ApiKey.PRODUCE][1])  # KAFKA-18659: Java's own broker says so as well
    assert dict(ANNOUNCED) == {key: theirs[key] for key in ANNOUNCED}


def test_the_headers_are_java_s(java: JavaMessages) -> None:
    header = struct.pack(">i", 77)
    for key, (lowest, highest) in ANNOUNCED.items():
        for version in range(lowest, highest + 1):
            if key == ApiKey.PRODUCE and version < CATALOGUE[key][0].versions[0]:
                continue  # announced, and not spoken
            request_version, response_version = java.header_versions(key, version)
            fields = {
                "requestApiKey": key,
                "requestApiVersion": version,
                "correlationId": 77,
                "clientId": "me",
            }
            ours = encode_request_header(RequestHeader(key, version, 77, "me"))
            assert ours == java.encode("RequestHeader", request_version, fields)
            theirs = java.encode("ResponseHeader", response_version, {"correlationId": 77})
            assert theirs.startswith(header)
            assert response_prefix(key, version, 77, 5) == struct.pack(">i", len(theirs) + 5) + theirs
