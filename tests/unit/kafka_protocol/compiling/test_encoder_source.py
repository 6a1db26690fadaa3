"""The text of encoders: what is one write. What it does is tested with the codec."""

import pytest

from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.compiling.encoder_source import encoder_source
from siltstone.kafka_protocol.compiling.layout import layout_of
from siltstone.kafka_protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
)
from siltstone.kafka_protocol.messages.fetch import FetchRequest, FetchResponse
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest
from siltstone.kafka_protocol.messages.list_offsets import ListOffsetsRequest
from siltstone.kafka_protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from siltstone.kafka_protocol.messages.produce import ProduceRequest
from siltstone.kafka_protocol.notation import Message
from support.kafka.rich_messages import RICH, samples


def text_of(message: type[Message], version: int, flexible: bool) -> str:
    return encoder_source(layout_of(message, version, flexible))[0]


def writes(text: str) -> list[str]:
    words = text.replace("(", " ").split()
    return [word for word in words if word.startswith("pack_")]


def test_neighbours_of_fixed_size_are_one_write_with_the_length_behind_them() -> None:
    legacy = text_of(ListOffsetsRequest, 5, flexible=False)
    assert writes(legacy) == ["pack_ibi", "pack_h", "pack_i", "pack_iiq"]
    flexible = text_of(ListOffsetsRequest, 6, flexible=True)
    # with the first byte of the length, or when it takes more, before it; no tagged fields: a constant
    assert writes(flexible)[:2] == ["pack_ibB", "pack_ib"]
    assert "pack_iiqB" in writes(flexible)


def test_one_loop_for_each_array() -> None:
    text = text_of(ListOffsetsRequest, 5, flexible=False)
    assert text.count("for ") == 2
    assert text.count("def ") == 1


def test_only_records_in_pieces_begin_a_new_buffer() -> None:
    assert text_of(FetchResponse, 4, flexible=False).count("out = bytearray()") == 2
    assert text_of(ProduceRequest, 4, flexible=False).count("out = bytearray()") == 1


def test_constants_are_all_that_the_text_needs() -> None:
    text, constants = encoder_source(layout_of(HeartbeatRequest, 4, flexible=True))
    exec(compile(text, "<test>", "exec"), constants)
    written = constants["encode"](HeartbeatRequest(group_id="g", generation_id=7, member_id="m"))
    assert written == [b"\x02g\x00\x00\x00\x07\x02m\x00\x00"]


@pytest.mark.parametrize(("message", "version"), RICH)
def test_what_an_encoder_writes_is_read_as_the_same_message(message: type[Message], version: int) -> None:
    flexible = message.flexible_since is not None and version >= message.flexible_since
    text, constants = encoder_source(layout_of(message, version, flexible))
    exec(compile(text, "<test>", "exec"), constants)
    read: list[Message] = []
    for sample in samples(message, version):
        pieces = constants["encode"](sample)
        read.append(decode(message, version, b"".join(pieces)))
    full, empty, *_ = samples(message, version)
    assert read[:2] == [full, empty] or version < message.versions[1], "fields that a version lacks are lost"
    assert [decode(message, version, encode(each, version)) for each in read] == read


def test_only_tagged_fields_that_are_not_as_by_default_are_written() -> None:
    text, constants = encoder_source(layout_of(FetchRequest, 18, flexible=True))
    exec(compile(text, "<test>", "exec"), constants)
    (plain,) = constants["encode"](FetchRequest())
    (tagged,) = constants["encode"](FetchRequest(cluster_id="a"))
    assert plain[-1] == 0
    assert tagged == plain[:-1] + b"\x01\x00\x02\x02a"


def test_a_uuid_of_another_size_is_refused() -> None:
    text, constants = encoder_source(layout_of(MetadataResponse, 12, flexible=True))
    exec(compile(text, "<test>", "exec"), constants)
    topic = MetadataResponseTopic(name="t", topic_id=bytes(15))
    with pytest.raises(ValueError, match="a uuid has 16 bytes, not 15"):
        constants["encode"](MetadataResponse(topics=[topic]))


@pytest.mark.parametrize(
    ("cursor", "written"),
    [(None, b"\xff"), (Cursor(topic_name="t", partition_index=5), b"\x01\x02t\0\0\0\x05\0")],
)
def test_a_structure_that_may_be_null_stands_behind_the_fields_before_it(
    cursor: Cursor | None, written: bytes
) -> None:
    text, constants = encoder_source(layout_of(DescribeTopicPartitionsRequest, 0, flexible=True))
    exec(compile(text, "<test>", "exec"), constants)
    request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=7, cursor=cursor)
    assert b"".join(constants["encode"](request)) == b"\x01" + b"\0\0\0\x07" + written + b"\0"
