"""The text of decoders: what is one read, and what is a loop. What it does is tested with the codec."""

# ruff: noqa: RUF012 -- msgspec makes a fresh list of an empty default

import struct

import pytest

from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.compiling.decoder_source import decoder_source
from siltstone.kafka_protocol.compiling.layout import ArrayOf, Field, FieldGroup, Layout, layout_of
from siltstone.kafka_protocol.messages.fetch import FetchRequest
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest
from siltstone.kafka_protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from siltstone.kafka_protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from siltstone.kafka_protocol.notation import TEXT_BYTES_MAX, Message, Structure
from siltstone.model.serving_limits import REQUEST_ELEMENTS_MAX
from support.kafka.rich_messages import RICH, samples


def text_of(version: int, in_place: bool = False) -> str:
    return decoder_source(layout_of(ListOffsetsRequest, version, flexible=version >= 6), in_place)[0]


def test_neighbours_of_fixed_size_are_one_read_with_the_length_behind_them() -> None:
    # replica id, isolation level, count of topics; then a topic's name; a partition whole
    assert reads(text_of(5)) == ["unpack_from_ibi", "unpack_from_h", "unpack_from_i", "unpack_from_iiq"]
    assert reads(text_of(6))[0] == "unpack_from_ibB"
    # the count of tagged fields is in the partition's one read
    assert "unpack_from_iiqB" in reads(text_of(6))


def reads(text: str) -> list[str]:
    words = text.replace("(", " ").split()
    return [word for word in words if word.startswith("unpack_from_")]


def test_one_loop_for_each_array() -> None:
    assert text_of(5).count("for _ in range(") == 2
    assert text_of(5).count("def ") == 1


def test_text_in_place_is_made_of_a_view() -> None:
    assert 'str(data[p:q], "utf-8")' in text_of(5, in_place=True)
    assert "data[p:q].decode()" in text_of(5)


def test_only_flexible_versions_have_varints_and_tagged_fields() -> None:
    assert "rest_of_varint" not in text_of(5)
    assert "skip_tagged" not in text_of(5)
    assert "skip_tagged" in text_of(6)


def test_constants_are_all_that_the_text_needs() -> None:
    text, constants = decoder_source(layout_of(HeartbeatRequest, 4, flexible=True), in_place=False)
    exec(compile(text, "<test>", "exec"), constants)
    read = constants["decode"](b"\x02g\x00\x00\x00\x07\x02m\x00\x00")
    assert read == HeartbeatRequest(group_id="g", generation_id=7, member_id="m")


def test_elements_without_a_size_cannot_be_counted() -> None:
    class Nothing(Structure, frozen=True, kw_only=True):
        pass

    class Holder(Structure, frozen=True, kw_only=True):
        nothings: list[Nothing] = []

    nothings = Field("nothings", ArrayOf(FieldGroup(Nothing, (), ())), False)
    with pytest.raises(AssertionError, match="elements of no size"):
        decoder_source(Layout(FieldGroup(Holder, (nothings,), ()), flexible=False), in_place=False)


def decoded(message_type: type[Message], version: int, message: Message) -> Message:
    """What the decoder makes of the bytes that the codec's encoder writes."""
    text, constants = decoder_source(layout_of(message_type, version, flexible=True), in_place=False)
    exec(compile(text, "<test>", "exec"), constants)
    read: Message = constants["decode"](encode(message, version))
    return read


@pytest.mark.parametrize("size", [0, 126, 127, 128, 16_383, 16_384, TEXT_BYTES_MAX])
def test_a_compact_length_of_any_size_is_read(size: int) -> None:
    beat = HeartbeatRequest(group_id="g" * size, generation_id=7, member_id="m", group_instance_id="i" * size)
    assert decoded(HeartbeatRequest, 4, beat) == beat


def test_only_texts_are_refused_for_their_length() -> None:
    """No older version has room for a longer text; bytes have a length of 32 bits in every version."""
    assignment = SyncGroupRequestAssignment(member_id="m", assignment=bytes(2 * TEXT_BYTES_MAX))
    sync = decoded(SyncGroupRequest, 5, SyncGroupRequest(group_id="g", assignments=[assignment]))
    assert isinstance(sync, SyncGroupRequest)
    assert len(sync.assignments[0].assignment) == 2 * TEXT_BYTES_MAX
    text, constants = decoder_source(layout_of(HeartbeatRequest, 4, flexible=True), in_place=False)
    exec(compile(text, "<test>", "exec"), constants)
    length = TEXT_BYTES_MAX + 2  # one more than the number of bytes, in seven bits a byte
    varint = bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14])
    body = varint + b"g" * (length - 1) + bytes(4) + b"\x02m\x00\x00"
    with pytest.raises(ValueError, match="group_id has length 32768"):
        constants["decode"](body)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(("message", "version"), RICH)
def test_a_decoder_reads_what_the_encoder_wrote(message: type[Message], version: int, in_place: bool) -> None:
    flexible = message.flexible_since is not None and version >= message.flexible_since
    text, constants = decoder_source(layout_of(message, version, flexible), in_place)
    exec(compile(text, "<test>", "exec"), constants)
    for sample in samples(message, version):
        body = encode(sample, version)
        read = constants["decode"](memoryview(body) if in_place else body)
        assert encode(read, version) == body
        assert read == decode(message, version, body)
        for end in range(0, len(body), max(1, len(body) // 50)):
            with pytest.raises((ValueError, IndexError, struct.error)):
                constants["decode"](memoryview(body)[:end] if in_place else body[:end])


def test_a_tagged_field_ends_where_its_size_says_and_unknown_ones_are_skipped() -> None:
    text, constants = decoder_source(layout_of(FetchRequest, 18, flexible=True), in_place=False)
    exec(compile(text, "<test>", "exec"), constants)
    body = encode(FetchRequest(), 18)
    assert body[-1] == 0, "the number of tagged fields"
    unknown = body[:-1] + b"\x01\x63\x03abc"
    assert constants["decode"](unknown) == constants["decode"](body)
    cluster_id = body[:-1] + b"\x01\x00\x03\x02a"
    with pytest.raises((ValueError, IndexError, struct.error)):
        constants["decode"](cluster_id + b"x")
    read = constants["decode"](body[:-1] + b"\x02\x00\x02\x02a\x63\x01b")
    assert read.cluster_id == "a"


def test_arrays_have_so_many_elements_in_all() -> None:
    text, constants = decoder_source(layout_of(ListOffsetsRequest, 5, flexible=False), in_place=False)
    limited = text.replace(str(REQUEST_ELEMENTS_MAX), "3")
    exec(compile(limited, "<test>", "exec"), constants)
    for partitions in (2, 3):
        topic = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition()] * partitions)
        body = encode(ListOffsetsRequest(topics=[topic]), 5)
        if 1 + partitions <= 3:
            assert len(constants["decode"](body).topics[0].partitions) == partitions
        else:
            with pytest.raises(ValueError, match="more than"):
                constants["decode"](body)
