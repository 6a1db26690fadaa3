"""What other libraries make of a message's bytes: kio, and kafka-python.

Each reads a body, gives its values in a plain form (dictionaries, lists, numbers, text, bytes) and writes it again.
"""

import dataclasses
import datetime
import importlib
import io
import pkgutil
import typing
import uuid
import warnings
from functools import cache
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from siltstone.kafka_protocol.compiling.layout import ArrayOf, Blob, Field, FieldGroup, WireType
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.notation import Message, Number
from support.kafka.message_strategies import group_of, schema_name, tagged_of_kafka

MILLISECOND = datetime.timedelta(milliseconds=1)
EPOCH = datetime.datetime.fromtimestamp(0, tz=datetime.UTC)
UNKNOWN_OPERATIONS = 31
"""The bit that kafka-python takes away when it stands alone: "not asked for"."""


def plain(message: Message, version: int) -> Any:
    """Our message in the plain form; gathered records as one."""
    return _plain(group_of(type(message), version), message)


def _plain(wire: WireType, value: Any) -> Any:
    match wire:
        case FieldGroup() if value is not None:
            return {field.name: _plain(field.type, getattr(value, field.name)) for field in fields_of(wire)}
        case ArrayOf() if value is not None:
            return [_plain(wire.element, element) for element in value]
        case Blob(gathered=True) if value is not None:
            return b"".join(value)
        case Blob() if value is not None:
            return bytes(value)
    return value


def fields_of(group: FieldGroup) -> list[Field]:
    return [*group.fields, *(tagged.field for tagged in tagged_of_kafka(group))]


# -- kio ---------------------------------------------------------------------------------------------------------


@cache
def _kio(message: type[Message], version: int) -> Any:
    is_request = CATALOGUE[message.api_key][0] is message
    schema = (load_request_schema if is_request else load_response_schema)(int(message.api_key), version)
    return entity_reader(schema), entity_writer(schema)


def kio_reads(message: type[Message], version: int, body: bytes) -> tuple[Any, bytes]:
    """The values in ``body``, and the body that kio writes of them."""
    read, write = _kio(message, version)
    entity, size = read(body, 0)
    assert size == len(body)
    written = io.BytesIO()
    write(written, entity)
    return _kio_plain(group_of(message, version), entity), written.getvalue()


def _kio_plain(group: FieldGroup, entity: Any) -> Any:
    values = {
        field.name: _kio_value(field.type, _kio_attribute(entity, schema_name(group, field.name)))
        for field in fields_of(group)
    }
    assert len(values) == len(dataclasses.fields(entity))
    return values


def _kio_attribute(entity: Any, name: str) -> Any:
    """kio names a field with a unit by its type: throttle_time is a timedelta."""
    without_unit = name.removesuffix("_ms")
    return getattr(entity, name if hasattr(entity, name) else without_unit)


def _kio_value(wire: WireType, value: Any) -> Any:
    match wire, value:
        case Number(code="16s"), None:
            return bytes(16)
        case Number(code="q"), None:
            return -1
        case FieldGroup(), object():
            return value if value is None else _kio_plain(wire, value)
        case ArrayOf(), tuple():
            return [_kio_value(wire.element, element) for element in value]
        case _, datetime.timedelta():
            return value // MILLISECOND
        case _, datetime.datetime():
            return (value - EPOCH) // MILLISECOND
        case _, uuid.UUID():
            return value.bytes
    return value


def numbers_left_out(message: type[Message], version: int) -> tuple[dict[str, int], dict[str, int]]:
    """Structure and field → the number that a field has when it is left out: ours, and that of Kafka's schema, which is
    0 where the schema names none."""
    is_request = CATALOGUE[message.api_key][0] is message
    schema = (load_request_schema if is_request else load_response_schema)(int(message.api_key), version)
    ours: dict[str, int] = {}
    theirs: dict[str, int] = {}
    _add_numbers(group_of(message, version), schema, ours, theirs)
    return ours, theirs


def _add_numbers(group: FieldGroup, schema: Any, ours: dict[str, int], theirs: dict[str, int]) -> None:
    hints = typing.get_type_hints(schema)
    defaults = {field.name: field.default for field in dataclasses.fields(schema)}
    for field in fields_of(group):
        name = schema_name(group, field.name)
        name = name if name in hints else name.removesuffix("_ms")
        wire = field.type.element if isinstance(field.type, ArrayOf) else field.type
        if isinstance(wire, FieldGroup):
            _add_numbers(wire, _class_in(hints[name]), ours, theirs)
        elif isinstance(number := getattr(group.structure(), field.name), int):
            default = defaults[name]
            place = f"{group.structure.__name__}.{field.name}"
            ours[place] = number
            theirs[place] = 0 if default is dataclasses.MISSING else _kio_value(wire, default)


def _class_in(hint: Any) -> Any:
    """The class of one element: X of ``tuple[X, ...] | None``."""
    if dataclasses.is_dataclass(hint):
        return hint
    return next((found for each in typing.get_args(hint) if (found := _class_in(each)) is not None), None)


# -- kafka-python ------------------------------------------------------------------------------------------------


@cache
def _kafka_python_classes() -> dict[str, Any]:
    classes: dict[str, Any] = {}
    with warnings.catch_warnings(
        action="ignore", category=DeprecationWarning
    ):  # its way of reading its own files
        for part in ("admin", "consumer", "metadata", "producer"):
            package = importlib.import_module(f"kafka.protocol.{part}")
            for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                classes |= vars(importlib.import_module(module.name))
        classes |= vars(importlib.import_module("kafka.protocol.sasl"))
    return classes


APIS_NOT_IN_KAFKA_PYTHON = (
    "UnregisterBroker", "ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "ShareGroupHeartbeat", "ShareGroupDescribe",
    "ShareFetch", "ShareAcknowledge", "DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets",
)  # fmt: skip
NOT_IN_KAFKA_PYTHON = {f"{api}{side}" for api in APIS_NOT_IN_KAFKA_PYTHON for side in ("Request", "Response")}


def kafka_python_reads(message: type[Message], version: int, body: bytes) -> tuple[Any, bytes]:
    """The values in ``body``, and the body that kafka-python writes of them; kio's where kafka-python does not have the
    message."""
    data_class = _kafka_python_classes().get(message.__name__)
    if data_class is None:
        assert message.__name__ in NOT_IN_KAFKA_PYTHON
        return kio_reads(message, version, body)
    # Past the ApiVersionsResponse's own decode, which takes every error for version 0.
    entity = super(data_class, data_class).decode(body, version=version)
    is_flexible = data_class.flexible_version_q(version)
    written = data_class._struct.encode(entity, version=version, compact=is_flexible, tagged=is_flexible)
    return _kafka_python_plain(group_of(message, version), entity), bytes(written)


def _kafka_python_plain(group: FieldGroup, entity: Any) -> Any:
    return {
        field.name: _kafka_python_value(
            field, _kafka_python_attribute(entity, schema_name(group, field.name))
        )
        for field in fields_of(group)
    }


def _kafka_python_attribute(entity: Any, name: str) -> Any:
    if name.endswith("authorized_operations") and not hasattr(entity, name):
        return entity.authorized_operations
    return getattr(entity, name)


def _kafka_python_value(field: Field, value: Any) -> Any:
    match field.type, value:
        case Number(code="16s"), None:
            return bytes(16)
        case FieldGroup(), None if not field.nullable:  # a tagged field that was left out
            return _plain(field.type, field.type.structure())
        case FieldGroup(), object():
            return value if value is None else _kafka_python_plain(field.type, value)
        case ArrayOf(element), list() | tuple():
            return [_kafka_python_value(Field("", element, False), each) for each in value]
        case Number(code="i"), set() | None:
            return _signed(sum(1 << bit for bit in ({UNKNOWN_OPERATIONS} if value is None else value)))
        case _, uuid.UUID():
            return value.bytes
        case Blob(), memoryview():
            return bytes(value)
    return value


def _signed(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits
