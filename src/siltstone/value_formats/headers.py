"""The schema in a header: newer serializers leave values as they are, and write what would be their prefix (``wire``)
into a header of the record, with the GUID of the schema, or its id, and for Protobuf the path to the message.

``framed`` puts that before each value. So all that follows reads one layout, whichever of the two a producer chose. A
header wins over the bytes of the value [confluent-kafka: dual_schema_id_deserializer]; of several the last counts.
"""

from typing import Any

import numpy as np

from siltstone.record_columns.arrow import require_arrow
from siltstone.value_formats.value_format import FormatKind
from siltstone.value_formats.wire import (
    GUID_MAGIC,
    GUID_PREFIX_BYTES,
    MAGIC,
    PREFIX_BYTES,
    PathMalformed,
    message_path,
)

VALUE_SCHEMA = "__value_schema_id"
KEY_SCHEMA = "__key_schema_id"

_LENGTHS = {MAGIC: PREFIX_BYTES, GUID_MAGIC: GUID_PREFIX_BYTES}


def framed(values: Any, headers: Any, name: str, kind: FormatKind) -> Any:
    """Returns the pyarrow.BinaryArray of values, each after the content of its record's header ``name``, if there is
    one. ``headers`` is the column of that name of the same records. If a header is malformed, the value is empty, and
    so names no schema: its bytes must not be taken for a part of the prefix."""
    arrow = require_arrow()
    from pyarrow import compute  # noqa: PLC0415  an optional dependency

    pairs = headers.flatten()
    if not len(pairs):
        return values
    names, contents = pairs.flatten()
    at = np.flatnonzero(compute.equal(names, name).to_numpy(zero_copy_only=False))
    if not len(at):
        return values
    rows = compute.list_parent_indices(headers).to_numpy(zero_copy_only=False)[at]
    last = np.full(len(values), -1, dtype=np.int64)
    np.maximum.at(last, rows, at)
    prefixes = contents.take(arrow.array(last, mask=last < 0)).dictionary_encode()
    are_good = arrow.array(
        [_is_prefix(each, kind) for each in prefixes.dictionary.to_pylist()], arrow.bool_()
    )
    is_named, is_good = arrow.array(last >= 0), are_good.take(prefixes.indices).fill_null(False)
    joined = compute.binary_join_element_wise(
        prefixes.dictionary_decode().fill_null(b""), values, arrow.scalar(b"", arrow.binary())
    )
    is_bad = compute.and_(is_named, compute.invert(is_good))
    is_bad = compute.and_(is_bad, values.is_valid())
    return compute.if_else(is_bad, arrow.scalar(b"", arrow.binary()), joined)


def _is_prefix(content: bytes | None, kind: FormatKind) -> bool:
    """Returns whether the content of a header is exactly what may stand before a payload."""
    length = _LENGTHS.get(content[0]) if content else None
    if content is None or length is None or len(content) < length:
        return False
    if kind is not FormatKind.PROTOBUF:
        return len(content) == length
    try:
        return message_path(content)[1] == len(content)
    except PathMalformed:
        return False
