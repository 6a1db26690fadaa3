"""Kafka's primitive types in the records of ``__consumer_offsets``: big endian, strings and bytes preceded by their
length.

Length -1 is null, and is damage in a field that may not be null.
"""

import struct
from struct import Struct

from siltstone.model.errors import CorruptData, InvalidRequest

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
STRING_BYTES_MAX = 0x7FFF


class DamagedGroupRecord(CorruptData):
    """A record of __consumer_offsets has bytes that no broker writes."""


class TextTooLong(InvalidRequest):
    """A text does not fit the 16-bit length of Kafka's strings."""


class FieldReader:
    """Every method raises DamagedGroupRecord."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        return self._number(_INT16)

    def int32(self) -> int:
        return self._number(_INT32)

    def int64(self) -> int:
        return self._number(_INT64)

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise DamagedGroupRecord("a string is null in a field that may not be null")
        return text

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length == -1:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise DamagedGroupRecord(f"a string is not UTF-8: {error}") from error

    def sized_bytes(self) -> bytes:
        return self._take(self.int32())

    def count(self, item_bytes_min: int) -> int:
        """Returns the number of items of an array whose items take at least ``item_bytes_min`` bytes each."""
        count = self.int32()
        if count < 0 or count * item_bytes_min > len(self._data) - self._position:
            raise DamagedGroupRecord(f"an array claims {count} items in a record of {len(self._data)} bytes")
        return count

    def end(self) -> None:
        if self._position != len(self._data):
            raise DamagedGroupRecord(
                f"{len(self._data) - self._position} bytes follow the last field of the record"
            )

    def _number(self, layout: Struct) -> int:
        try:
            number: int
            (number,) = layout.unpack_from(self._data, self._position)
        except struct.error as error:
            raise DamagedGroupRecord(f"the record ends at byte {len(self._data)}, inside a field") from error
        self._position += layout.size
        return number

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise DamagedGroupRecord(f"a field claims {length} bytes in a record of {len(self._data)} bytes")
        taken = self._data[self._position : end]
        self._position = end
        return taken


def int16(number: int) -> bytes:
    return _INT16.pack(number)


def int32(number: int) -> bytes:
    return _INT32.pack(number)


def int64(number: int) -> bytes:
    return _INT64.pack(number)


def string(text: str) -> bytes:
    """Raises TextTooLong."""
    encoded = text.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise TextTooLong(f"a text has {len(encoded)} bytes; send at most {STRING_BYTES_MAX}")
    return _INT16.pack(len(encoded)) + encoded


def nullable_string(text: str | None) -> bytes:
    return _INT16.pack(-1) if text is None else string(text)


def sized_bytes(content: bytes) -> bytes:
    return _INT32.pack(len(content)) + content
