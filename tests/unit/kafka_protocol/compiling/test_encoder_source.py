"""The text of encoders: what is one write. What it does is tested with the codec."""

from siltstone.kafka_protocol.compiling.encoder_source import encoder_source
from siltstone.kafka_protocol.compiling.layout import layout_of
from siltstone.kafka_protocol.messages.fetch import FetchResponse
from siltstone.kafka_protocol.messages.heartbeat import HeartbeatRequest
from siltstone.kafka_protocol.messages.list_offsets import ListOffsetsRequest
from siltstone.kafka_protocol.messages.produce import ProduceRequest
from siltstone.kafka_protocol.notation import Message


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
