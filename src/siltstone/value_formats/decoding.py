"""The port of decoders.

A decoder never drops a row and never moves one: row n of its column is value n. It keeps nothing but schemas between
calls, so a task may be repeated in any process.
"""

from typing import Any, Protocol

import msgspec

from siltstone.value_formats.wire import NOT_FRAMED, SchemaName

REASON_CHARACTERS_MAX = 300


class BadValue(msgspec.Struct, frozen=True):
    """The value of ``row`` cannot be decoded. ``schema`` names that of its prefix; NOT_FRAMED if it has
    none."""

    row: int
    reason: str
    schema: SchemaName = NOT_FRAMED


class DecodedValues(msgspec.Struct, frozen=True):
    """``column`` is a pyarrow.Array with as many rows as there were values; it is null where a value was null or is
    ``bad``."""

    column: Any
    bad: tuple[BadValue, ...]


class ValueDecoder(Protocol):
    """Decodes columns of values in one format."""

    arrow_type: Any

    def decode(self, values: Any) -> DecodedValues:
        """``values`` is a pyarrow.BinaryArray. Raises SchemasNeeded and RegistryNotReachable."""
        ...


def reason_of(failure: BaseException) -> str:
    """Returns the cause of a bad value in one line, which can be stored as UTF-8 whatever the value was."""
    text = " ".join(str(failure).split()) or type(failure).__name__
    return text[:REASON_CHARACTERS_MAX].encode(errors="replace").decode()
