"""Reads Protobuf's schemas: file descriptors in base64 → the messages that they describe.

A registry has descriptors one by one, ``protoc`` writes a set of them. The files of ``google.protobuf`` are a part of
every program, so they may be missing in both.
"""

import base64
import binascii
from typing import Any

from siltstone.value_formats.decoding import reason_of
from siltstone.value_formats.failures import FormatExtraMissing, FormatRefused, SchemaMalformed
from siltstone.value_formats.value_format import FormatKind, Schema

try:
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        descriptor_pool,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
    from google.protobuf.message import DecodeError
except (
    ImportError
) as missing:  # in a worker of Spark, whose jar has a google/protobuf, it is no ModuleNotFoundError
    if not (missing.name or "").startswith("google"):
        raise
    descriptor_pb2 = None


def schema_of_descriptor_set(data: bytes) -> Schema:
    """Returns the schema in a FileDescriptorSet: its last file, which imports the others. Raises FormatExtraMissing,
    SchemaMalformed."""
    _require_protobuf()
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    except DecodeError as cause:
        raise SchemaMalformed(f"it is not a FileDescriptorSet: {reason_of(cause)}") from cause
    texts = [base64.b64encode(each.SerializeToString()).decode() for each in files]
    if not texts:
        raise SchemaMalformed("the FileDescriptorSet is empty: write it with protoc --include_imports")
    return Schema(FormatKind.PROTOBUF, texts[-1], tuple(texts[:-1]))


def message_of(schema: Schema, name: str = "") -> Any:
    """Returns the descriptor of a message, or of the first message if none is named. Raises FormatExtraMissing,
    SchemaMalformed, FormatRefused."""
    _require_protobuf()
    pool = descriptor_pool.DescriptorPool()
    try:
        known = _known_files()
        for data in known.values():
            pool.AddSerializedFile(data)
        for text in (*schema.imports, schema.text):
            each = file_of(text)
            if each.name not in known:
                pool.AddSerializedFile(each.SerializeToString())
        found = pool.FindFileByName(file_of(schema.text).name)
        messages = list(found.message_types_by_name.values())
        if name:
            return pool.FindMessageTypeByName(name)
    except (TypeError, KeyError) as cause:
        raise SchemaMalformed(f"the descriptor cannot be parsed: {reason_of(cause)}") from cause
    if not messages:
        raise FormatRefused(f"{found.name} has no message: name one of what it imports")
    return messages[0]


def _known_files() -> dict[str, bytes]:
    """Returns the files of google.protobuf that every program has, so that a registry need not have them."""
    known = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
    return {each.DESCRIPTOR.name: each.DESCRIPTOR.serialized_pb for each in known}


def _require_protobuf() -> None:
    if descriptor_pb2 is None:
        raise FormatExtraMissing("protobuf", "protobuf")


def file_of(text: str) -> Any:
    """Returns the FileDescriptorProto in a schema's text. Raises SchemaMalformed."""
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError) as cause:
        raise SchemaMalformed(f"it is not a descriptor in base64: {reason_of(cause)}") from cause


def message_at(file: Any, path: tuple[int, ...]) -> str | None:
    """Returns the full name of the message at a path of indexes, in a FileDescriptorProto."""
    names = [file.package] if file.package else []
    messages = file.message_type
    for index in path:
        if not 0 <= index < len(messages):
            return None
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)
