"""Messages of any API at random, and what Kafka's Java classes call them: their JSON form, their schema's text.

All is drawn from the layout of one version, so what a version lacks keeps its default, as it does after decoding.
"""

import base64
import random
import re
from collections.abc import Sequence
from typing import Any

from siltstone.kafka_protocol.compiling.layout import (
    ArrayOf,
    Blob,
    Field,
    FieldGroup,
    Layout,
    Text,
    WireType,
    layout_of,
)
from siltstone.kafka_protocol.notation import Message, Number
from support.kafka.message_strategies import OWN_TAGS_FROM, schema_name

LETTERS = "abcdefghij.-_äß世界🪨"
NULL_CHANCE = 0.2
INTEGER_CODES = "bhiqBHIQ"
TYPE_NAMES = {
    "?": "BOOLEAN",
    "b": "INT8",
    "h": "INT16",
    "H": "UINT16",
    "i": "INT32",
    "I": "UINT32",
    "q": "INT64",
    "d": "FLOAT64",
    "16s": "UUID",
}


TAGS_END = 2**32


def layout_at(message: type[Message], version: int) -> Layout:
    flexible = message.flexible_since is not None and version >= message.flexible_since
    return layout_of(message, version, flexible)


def random_message(message: type[Message], version: int, rng: random.Random) -> Message:
    built = _random_group(layout_at(message, version).group, rng)
    assert isinstance(built, Message)
    return built


def message_of_kafka(message: type[Message], version: int, rng: random.Random) -> Message:
    """Returns a random message without the tagged fields that only our nodes send each other."""
    built = _random_group(layout_at(message, version).group, rng, OWN_TAGS_FROM)
    assert isinstance(built, Message)
    return built


def to_java_json(message: Message, version: int) -> dict[str, Any]:
    return _group_to_json(layout_at(type(message), version).group, message)


def java_schema(message: type[Message], version: int) -> str:
    """Returns the layout in the words of Java's class ``Schema``."""
    layout = layout_at(message, version)
    return _schema(layout.group, layout.flexible)


def _random_group(group: FieldGroup, rng: random.Random, tags_end: int = TAGS_END) -> Any:
    tagged = (each for each in group.tagged if each.tag < tags_end)
    fields = [*group.fields, *(each.field for each in tagged if rng.random() < 0.5)]
    drawn = {field.name: _random_value(field.type, field.nullable, rng, tags_end) for field in fields}
    return group.structure(**drawn)


def _random_value(wire: WireType, nullable: bool, rng: random.Random, tags_end: int = TAGS_END) -> Any:
    if nullable and rng.random() < NULL_CHANCE:
        return None
    match wire:
        case Number():
            return _random_number(wire, rng)
        case Text():
            return "".join(rng.choices(LETTERS, k=_length(rng)))
        case Blob():
            drawn = rng.randbytes(_length(rng))
            return [drawn] * bool(drawn) if wire.gathered else drawn
        case ArrayOf():
            return [
                _random_value(wire.element, False, rng, tags_end) for _ in range(rng.choice((0, 1, 1, 2, 3)))
            ]
        case FieldGroup():
            return _random_group(wire, rng, tags_end)


def _length(rng: random.Random) -> int:
    """Mostly short; also on both sides of where a compact length takes a second byte."""
    return rng.choice((0, 1, 2, 5, 5, 9, 126, 127, 128))


def _random_number(number: Number, rng: random.Random) -> Any:
    if number.code == "?":
        return rng.random() < 0.5
    if number.code in INTEGER_CODES:
        signed = number.code.islower()
        lowest = -(1 << number.size_bytes * 8 - 1) if signed else 0
        highest = lowest + (1 << number.size_bytes * 8) - 1
        return rng.choice((lowest, highest, 0, 1, rng.randint(lowest, highest)))
    if number.code == "d":
        return rng.uniform(-1e9, 1e9)
    return rng.randbytes(number.size_bytes)


def _group_to_json(group: FieldGroup, value: Any) -> dict[str, Any]:
    theirs = (tagged.field for tagged in group.tagged if tagged.tag < OWN_TAGS_FROM)
    fields: Sequence[Field] = [*group.fields, *theirs]
    return {
        _camel_case(schema_name(group, each.name)): _to_json(each.type, getattr(value, each.name))
        for each in fields
    }


def _to_json(wire: WireType, value: Any) -> Any:
    if value is None:
        return None
    match wire:
        case Number(code="16s"):
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        case Blob():
            return base64.b64encode(b"".join(value) if wire.gathered else value).decode()
        case ArrayOf():
            return [_to_json(wire.element, element) for element in value]
        case FieldGroup():
            return _group_to_json(wire, value)
    return value


def _camel_case(name: str) -> str:
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


def _schema(group: FieldGroup, flexible: bool) -> str:
    fields = [
        f"{schema_name(group, field.name)}:{_schema_type(field.type, field.nullable, flexible)}"
        for field in group.fields
    ]
    if flexible:
        tags = ", ".join(str(each.tag) for each in group.tagged if each.tag < OWN_TAGS_FROM)
        fields.append(f"_tagged_fields:TAGGED_FIELDS_TYPE_NAME({tags})")
    return "{" + ",".join(fields) + "}"


def _schema_type(wire: WireType, nullable: bool, flexible: bool) -> str:
    form = ("COMPACT_" if flexible else "") + ("NULLABLE_" if nullable else "")
    match wire:
        case Number():
            return TYPE_NAMES[wire.code]
        case Text():
            return f"{form}STRING"
        case Blob():
            return f"{form}BYTES"
        case ArrayOf():
            return f"{form}ARRAY({_schema_type(wire.element, False, flexible)})"
        case FieldGroup():
            return _schema(wire, flexible)
