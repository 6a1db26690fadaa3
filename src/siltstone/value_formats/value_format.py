"""``ValueFormat`` says how a column of values is decoded. A plan settles it once, and each task has it in its input.

It names the reader schema and the Arrow type that follows from it, so every task makes columns of one type, whatever
schema each value was written with.
"""

from enum import Enum
from typing import Any

import msgspec

from siltstone.record_columns.arrow import require_arrow
from siltstone.topic_configs.table_export import TableColumn
from siltstone.value_formats.failures import FormatRefused
from siltstone.value_formats.wire import NOT_FRAMED


class FormatKind(Enum):
    """``STRING`` is UTF-8 text as it is; the others have fields."""

    STRING = "string"
    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"


class Schema(msgspec.Struct, frozen=True):
    """A schema as a registry has it. ``text`` is JSON for Avro and JSON Schema, and for Protobuf a FileDescriptorProto
    in base64; ``imports`` are the texts of the schemas that it refers to, each before the schemas that need it."""

    kind: FormatKind
    text: str
    imports: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        return len(self.text) + sum(map(len, self.imports))


class BadValues(Enum):
    """Says what a scan does with a value that cannot be decoded: the scan fails; the value becomes null and is counted;
    or, where columns are found from the values, the column of rescued data has all of it."""

    FAIL = "fail"
    NULL = "null"
    RESCUE = "rescue"


class ValueFormat(msgspec.Struct, frozen=True):
    """``reader`` is the schema whose fields become columns; JSON and text may have none. ``type_ipc`` is the Arrow type
    of the decoded column. ``registry`` is the URL of the registry whose ids the values begin with; empty if they have
    no such prefix. ``message`` is the full name of the Protobuf message. ``found`` are the columns of JSON objects
    that were found from the values; None: the values are one column."""

    kind: FormatKind
    type_ipc: bytes
    reader: Schema | None = None
    registry: str = ""
    message: str = ""
    on_bad: BadValues = BadValues.FAIL
    found: tuple[TableColumn, ...] | None = None

    @property
    def arrow_type(self) -> Any:
        """The pyarrow.DataType of the decoded column. Raises ArrowMissing."""
        return decode_type(self.type_ipc)


class ValueEncoding(msgspec.Struct, frozen=True, array_like=True):
    """Says how values are written: with this Avro schema, and with its id before each value if the schema is in a
    registry; or as JSON (``AS_JSON``), for which the schema has no text."""

    schema: Schema
    schema_id: int = NOT_FRAMED


AS_JSON = ValueEncoding(Schema(FormatKind.JSON, ""))


def encode_type(arrow_type: Any) -> bytes:
    """Returns a pyarrow.DataType as bytes, which any version of Arrow reads."""
    arrow = require_arrow()
    return bytes(arrow.schema([arrow.field("value", arrow_type)]).serialize().to_pybytes())


def decode_type(type_ipc: bytes) -> Any:
    """Returns the pyarrow.DataType that ``encode_type`` wrote. Raises FormatRefused."""
    arrow = require_arrow()
    try:
        return arrow.ipc.read_schema(arrow.py_buffer(type_ipc)).field(0).type
    except (arrow.ArrowInvalid, OSError, IndexError) as cause:
        raise FormatRefused(f"the type of the values is not one that Arrow has written: {cause}") from cause
