"""Hypothesis strategies for messages of any API and version, drawn from the layout of the version.

The ranges are those that other libraries can hold: kio knows error codes and points in time, and no other numbers in
their places.
"""

from functools import cache
from typing import Any

import pytest
from hypothesis import strategies as st

from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.compiling.layout import (
    ArrayOf,
    Blob,
    Field,
    FieldGroup,
    TaggedField,
    Text,
    WireType,
    layout_of,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.notation import Message, Number
from support.kafka.message_versions import versions_with_own_layout
from support.processes.tried import RecordTried

EVERY_MESSAGE = [message for pair in CATALOGUE.values() for message in pair]
"""Request and response of every API described."""
EVERY_VERSION = [
    (message, version)
    for message in EVERY_MESSAGE
    for version in range(message.versions[0], message.versions[1] + 1)
]

VERSIONS = [(message, versions_with_own_layout(message)) for message in EVERY_MESSAGE]
"""The versions of each message whose bytes have another layout than those of the version before."""
OTHER_VERSIONS = [
    (message, left)
    for message, own in VERSIONS
    if (left := [other for of, other in EVERY_VERSION if of is message and other not in own])
]

IN_ITS_VERSIONS = pytest.mark.parametrize(
    ("message", "versions"),
    [
        *(pytest.param(message, own, id=message.__name__) for message, own in VERSIONS),
        *(
            pytest.param(message, left, id=f"{message.__name__}-others", marks=pytest.mark.nightly)
            for message, left in OTHER_VERSIONS
        ),
    ],
)
"""Makes one test for each message. Versions that differ only in their number are tested at night."""


@pytest.fixture
def versions_tried(request: pytest.FixtureRequest, record_tried: RecordTried) -> None:
    """Records the versions that are tried at night."""
    if request.node.get_closest_marker("nightly"):
        record_tried("versions of messages", len(request.node.callspec.params["versions"]))


LAST_POINT_IN_TIME = 4_102_444_800_000
LONG = st.sampled_from([126, 127, 128, 300])
"""Lengths on both sides of those at which a compact length takes a second byte."""
TEXTS = st.one_of(st.text(max_size=8), st.builds(lambda size: "é" * (size // 2) + "x" * (size % 2), LONG))
BLOBS = st.one_of(st.binary(max_size=8), st.builds(bytes, LONG))


OWN_TAGS_FROM = 10_000
"""Tagged fields from here on are ours, for requests from node to node; Kafka's readers pass over them."""

SCHEMA_NAMES = {
    "ProduceRequest": {"topics": "topic_data"},
    "ProduceTopic": {"partitions": "partition_data"},
    "ProduceResponse": {"topics": "responses"},
    "ProducedTopic": {"partitions": "partition_responses"},
    "RecordError": {"message": "batch_index_error_message"},
    "FetchRequest": {"replica": "replica_state", "forgotten_topics": "forgotten_topics_data"},
    "FetchTopic": {"name": "topic"},
    "FetchPartition": {"index": "partition", "bytes_max": "partition_max_bytes"},
    "ForgottenTopic": {"name": "topic"},
    "FetchResponse": {"topics": "responses"},
    "FetchedTopic": {"name": "topic"},
    "FetchedPartition": {"index": "partition_index"},
    "ShareFetchRequest": {"forgotten_topics": "forgotten_topics_data"},
    "ShareFetchPartition": {"index": "partition_index"},
    "ShareFetchResponse": {"topics": "responses"},
    "ShareFetchedPartition": {"index": "partition_index"},
    "AcknowledgePartition": {"index": "partition_index"},
    "ShareAcknowledgeResponse": {"topics": "responses"},
    "AcknowledgedPartition": {"index": "partition_index"},
}
"""The names in Kafka's schema of the fields that tools/kafka-messages gives plainer names."""


def schema_name(group: FieldGroup, field: str) -> str:
    return SCHEMA_NAMES.get(group.structure.__name__, {}).get(field, field)


def is_same(one: Message, other: Message, version: int) -> bool:
    """Returns whether two values are equal, with one NaN equal to another."""
    return one == other or encode(one, version) == encode(other, version)


def group_of(message: type[Message], version: int) -> FieldGroup:
    flexible = message.flexible_since is not None and version >= message.flexible_since
    return layout_of(message, version, flexible).group


def tagged_of_kafka(group: FieldGroup) -> list[TaggedField]:
    return [tagged for tagged in group.tagged if tagged.tag < OWN_TAGS_FROM]


@cache
def messages(message: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Messages that every reader of Kafka's schema understands: without the fields that only our nodes send."""
    return _groups(group_of(message, version))


def _groups(group: FieldGroup) -> st.SearchStrategy[Any]:
    fields = {field.name: _values(field) for field in group.fields}
    tagged = {tagged.field.name: _values(tagged.field) for tagged in tagged_of_kafka(group)}
    drawn = st.fixed_dictionaries(fields, optional=tagged)
    return drawn.map(lambda values: group.structure(**values))


def _values(field: Field) -> st.SearchStrategy[Any]:
    values = _of_type(field.type, field.name)
    return st.none() | values if field.nullable else values


def _of_type(wire: WireType, name: str) -> st.SearchStrategy[Any]:
    match wire:
        case Text():
            return TEXTS
        case Blob(gathered=False):
            return BLOBS
        case Blob():
            return st.lists(st.binary(min_size=1, max_size=8), max_size=1)
        case ArrayOf():
            return st.lists(_of_type(wire.element, ""), max_size=2)
        case FieldGroup():
            return _groups(wire)
        case Number():
            return _numbers(wire, name)


def _numbers(number: Number, name: str) -> st.SearchStrategy[Any]:
    if number.code == "?":
        return st.booleans()
    if number.code == "16s":
        return st.binary(min_size=16, max_size=16)
    if name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if number.code == "q" and name.endswith("_ms"):
        # kio takes -1, which means none, for a time that a schema of Kafka gives it as a default, and for no other.
        return st.integers(0 if name == "transaction_start_time_ms" else -1, LAST_POINT_IN_TIME)
    if number.code == "d":
        return st.floats(allow_nan=False)
    if number.code == "H":
        return st.integers(0, 2**16 - 1)
    half = 1 << number.size_bytes * 8 - 1
    return st.integers(-half, half - 1)


def full_message(message: type[Message], version: int) -> Any:
    """Always the same message, in which nothing is empty, null or left out: one element in each list, all tagged
    fields, small numbers."""
    return _full(group_of(message, version), "")


def _full(wire: WireType, name: str) -> Any:
    match wire:
        case FieldGroup():
            fields = [*wire.fields, *(tagged.field for tagged in wire.tagged)]
            return wire.structure(**{field.name: _full(field.type, field.name) for field in fields})
        case ArrayOf():
            return [_full(wire.element, name)]
        case Text():
            return name[:4] + "é"
        case Blob():
            return [name.encode()] if wire.gathered else name.encode()
        case Number(code="?"):
            return True
        case Number(code="16s"):
            return bytes(range(16))
        case Number(code="d"):
            return len(name) + 0.5
    return len(name)
