"""A record as one line of JSON, as ``tail --format json`` writes and ``produce --format json`` reads it. Pure.

======================  ==========================================================================================
member                  meaning
======================  ==========================================================================================
``topic``               ignored when read
``partition``           when read: the record is sent to this partition, whatever its key
``offset``              ignored when read
``timestamp``           milliseconds since 1970
``key``, ``value``      a string or null; any other JSON value is read as its JSON text
``key_base64`` …        in place of ``key`` or ``value``, for bytes that are not UTF-8
``headers``             a list of ``{"name", "value"}`` or ``{"name", "value_base64"}``; an object is read as well
======================  ==========================================================================================
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Wrong
from collections.abc import Mapping
from typing import Any

import msgspec

from siltstone.kafka_client.producing.delivery import OutgoingRecord
from siltstone.kafka_protocol.records.reading import Record, RecordHeader
from siltstone.model.buffers import Buffer
from siltstone.model.errors import InvalidRequest

_KNOWN = frozenset({
    "topic", "partition", "offset", "timestamp", "key", "key_base64", "value", "value_base64", "headers",
})  # fmt: skip
_TIMESTAMP_MAX = 2**63 - 1

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Raised for bytes that are not JSON, or that are thousands of nested lists."""


class LineRefused(InvalidRequest):
    """A line of the input cannot be read as a record."""


def written_record(topic: str, partition: int, record: Record, *, json_values: bool = False) -> bytes:
    """Returns the JSON object of the record, without a line end. ``json_values``: a value that is JSON becomes part of
    the object as it is, so that ``jq .value.name`` finds what is in it; any other value stays a string."""
    document: dict[str, object] = {
        "topic": topic,
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **written_bytes("key", record.key),
        **(_embedded(record.value) if json_values else written_bytes("value", record.value)),
    }
    if record.headers:
        document["headers"] = [
            {"name": _written_name(name), **written_bytes("value", value)} for name, value in record.headers
        ]
    return msgspec.json.encode(document)


def _embedded(value: Buffer | None) -> Mapping[str, object]:
    if value is None:
        return {"value": None}
    try:
        msgspec.json.decode(value)
    except NOT_JSON:
        return written_bytes("value", value)
    return {"value": msgspec.Raw(bytes(value).replace(b"\n", b" ").replace(b"\r", b" "))}


def _written_name(name: str) -> str:
    """JSON has no bytes: bytes that are not UTF-8 become the replacement character U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def written_bytes(name: str, data: Buffer | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: str(data, "utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode()}


def read_record(line: bytes, number: int) -> OutgoingRecord:
    """Parses line ``number`` of the input. Raises LineRefused."""
    try:
        document = msgspec.json.decode(line)
    except NOT_JSON as failure:
        raise LineRefused(f"line {number} is not JSON: {failure}") from failure
    if not isinstance(document, dict):
        raise LineRefused(f'line {number}: write a JSON object such as {{"key": "k", "value": "v"}}')
    if unknown := document.keys() - _KNOWN:
        raise LineRefused(
            f"line {number}: {min(unknown)!r} is not a known member; known are {', '.join(sorted(_KNOWN))}"
        )
    return OutgoingRecord(
        line=number,
        key=_read_bytes(document, "key", number),
        value=_read_bytes(document, "value", number),
        headers=_read_headers(document.get("headers"), number),
        timestamp_ms=_whole_number(document, "timestamp", _TIMESTAMP_MAX, number),
        partition=_whole_number(document, "partition", 2**31 - 1, number),
    )


def _read_bytes(document: Mapping[str, Any], name: str, number: int) -> bytes | None:
    encoded = document.get(f"{name}_base64")
    if encoded is not None:
        if name in document or not isinstance(encoded, str):
            raise LineRefused(f"line {number}: give either {name}, or {name}_base64 as a string")
        try:
            return b64decode(encoded, validate=True)
        except Base64Wrong as wrong:
            raise LineRefused(f"line {number}: {name}_base64 is not valid base64: {wrong}") from wrong
    value = document.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)


def _read_headers(headers: object, number: int) -> tuple[RecordHeader, ...]:
    if headers is None:
        return ()
    if isinstance(headers, dict):
        headers = [{"name": name, "value": value} for name, value in headers.items()]
    if not isinstance(headers, list):
        raise LineRefused(f'line {number}: headers must be an object or a list of {{"name": …, "value": …}}')
    return tuple(_read_header(header, number) for header in headers)


def _read_header(header: object, number: int) -> RecordHeader:
    if not isinstance(header, dict) or not isinstance(header.get("name"), str):
        raise LineRefused(f'line {number}: a header must be an object such as {{"name": "n", "value": "v"}}')
    return header["name"], _read_bytes(header, "value", number)


def _whole_number(document: Mapping[str, Any], name: str, largest: int, number: int) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= largest:
        raise LineRefused(
            f"line {number}: {name} is {value!r}; it must be a whole number from 0 to {largest}"
        )
    return value
