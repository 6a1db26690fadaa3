import json

import pytest

from siltstone.scanning.streaming.failures import PositionUnknown
from siltstone.scanning.streaming.position import (
    StreamPosition,
    decode_position,
    encode_position,
)

POSITION = StreamPosition(
    "store", {"b" * 32: "trips", "a" * 32: "flights"}, {("b" * 32, 0): 7, ("a" * 32, 10): 3, ("a" * 32, 2): 5}
)
A, B = "a" * 32, "b" * 32
TEXT = (
    f'{{"store": "store", "t": {{"{A}": {{"n": "flights", "p": {{"2": 5, "10": 3}}}}, '
    f'"{B}": {{"n": "trips", "p": {{"0": 7}}}}}}, "v": 1}}'
)


def test_the_form_in_a_checkpoint_is_the_golden_text_whatever_the_order_of_the_offsets() -> None:
    assert json.dumps(encode_position(POSITION)) == TEXT
    turned = StreamPosition("store", POSITION.names, dict(reversed(POSITION.offsets.items())))
    assert json.dumps(encode_position(turned)) == TEXT


def test_a_position_comes_back_from_the_checkpoint() -> None:
    found = decode_position(json.loads(TEXT))
    assert found == POSITION
    assert found.partition_name(("a" * 32, 2)) == "flights-2"
    empty = StreamPosition("store")
    assert decode_position(json.loads(json.dumps(encode_position(empty)))) == empty


@pytest.mark.parametrize(
    "form", [{"flights": {"0": 5}}, {"v": 2, "store": "s", "t": {}}, {"v": 1, "store": "s", "t": {"x": 5}}]
)
def test_offsets_of_another_source_or_version_are_refused_by_name(form: dict[str, object]) -> None:
    with pytest.raises(PositionUnknown, match="checkpoint has offsets that"):
        decode_position(form)


def test_a_checkpoint_of_sparks_kafka_source_is_recognized_and_its_offsets_are_given_back() -> None:
    with pytest.raises(PositionUnknown, match="Spark's Kafka source") as refused:
        decode_position({"flights": {"0": 50, "1": 7}, "trips": {"0": 1}})
    assert 'startingOffsets, {"flights":{"0":50,"1":7},"trips":{"0":1}}' in str(refused.value)
