"""Every message in every version, against two independent libraries: the same values, the same bytes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.codec import decode, decode_in_place, encode
from siltstone.kafka_protocol.malformed import MalformedMessage
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.notation import Message
from support.kafka.message_oracles import kafka_python_reads, kio_reads, plain
from support.kafka.message_strategies import (
    EVERY_VERSION,
    IN_ITS_VERSIONS,
    full_message,
    is_same,
    messages,
    versions_tried,
)
from support.values.examples import examples

__all__ = ["versions_tried"]


def test_what_is_announced_is_described() -> None:
    described = {
        (key, version)
        for key, (request, response) in CATALOGUE.items()
        for version in range(request.versions[0], request.versions[1] + 1)
        if response.versions == request.versions
    }
    announced = {(key, version) for key, (low, high) in ANNOUNCED.items() for version in range(low, high + 1)}
    # Announced for the sake of old clients, and refused (KAFKA-18659).
    refused = {(0, 0), (0, 1), (0, 2)}
    assert announced - described == refused


@IN_ITS_VERSIONS
@pytest.mark.usefixtures("versions_tried")
def test_two_other_libraries_agree(message: type[Message], versions: list[int]) -> None:
    for version in versions:
        agree(message, version)


def agree(message: type[Message], version: int) -> None:
    @settings(max_examples=5, database=None)
    @given(messages(message, version))
    def on_any(built: Any) -> None:
        body = encode(built, version)
        values = plain(built, version)
        assert decode(message, version, body) == built
        assert decode_in_place(message, version, body) == built
        assert kio_reads(message, version, body) == (values, body)
        assert kafka_python_reads(message, version, body) == (values, body)

    on_any()


@st.composite
def damaged_bodies(draw: st.DrawFn) -> tuple[type[Message], int, bytes]:
    message, version = draw(st.sampled_from(EVERY_VERSION))
    body = bytearray(encode(full_message(message, version), version))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        body[start : start + draw(st.integers(0, 4))] = draw(st.binary(max_size=6))
    return message, version, bytes(body)


@settings(max_examples=examples(400))
@given(damaged_bodies())
def test_damage_is_malformed_or_another_message(damaged: tuple[type[Message], int, bytes]) -> None:
    message, version, body = damaged
    try:
        found = decode(message, version, body)
    except MalformedMessage:
        return
    # Unknown tagged fields and what trails are gone, and long ways of writing a length: then it stays as it is.
    again = encode(found, version)
    assert is_same(decode(message, version, again), found, version)
    assert len(again) <= len(body)
