"""Parses a line of input into a record, or several lines into one. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from siltstone.cli.json_records import LineRefused, read_record
from siltstone.cli.produce.plain_data import RowReader, key_reader, read_object
from siltstone.kafka_client.producing.delivery import OutgoingRecord
from siltstone.kafka_protocol.records.reading import RecordHeader
from siltstone.model.errors import InvalidRequest

TEXT, JSON, JSON_LINES, CSV = "text", "json", "json-lines", "csv"
FORMATS = (TEXT, JSON, JSON_LINES, CSV)
WITH_FIELDS = (JSON_LINES, CSV)

_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\0": "\0", "\\\\": "\\"}


class NoHeader(InvalidRequest):
    """The value of --header is not NAME=VALUE."""


class LineRules(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command. ``key``: the key of every record that has none of its own. ``separator``: splits a
    line into key and value; b"" for lines without keys. ``headers``: added to every record, before its own.
    ``empty_is_null``: an empty value is sent as null. ``key_field``: the field of json-lines and csv that is the key;
    ``missing_key_is_null``: a line without that field is sent without a key instead of being refused."""

    line_format: str = TEXT
    separator: bytes = b""
    key: bytes | None = None
    headers: tuple[RecordHeader, ...] = ()
    partition: int | None = None
    empty_is_null: bool = False
    key_field: str | None = None
    missing_key_is_null: bool = False


class LineReader(msgspec.Struct, frozen=True):
    """``read``: (line, number of the line) → record, or None while a record continues in the next line. ``finish`` is
    called at the end of the input. Both raise LineRefused."""

    read: Callable[[bytes, int], OutgoingRecord | None]
    finish: Callable[[], None] = lambda: None


def line_reader(rules: LineRules) -> LineReader:
    match rules.line_format:
        case "json":
            return LineReader(_json_reader(rules))
        case "json-lines":
            return LineReader(_object_reader(rules))
        case "csv":
            rows = RowReader()
            return LineReader(_row_reader(rules, rows), rows.finish)
        case _:
            return LineReader(_text_reader(rules))


def _object_reader(rules: LineRules) -> Callable[[bytes, int], OutgoingRecord]:
    key_of = _key_of(rules)

    def read(line: bytes, number: int) -> OutgoingRecord:
        text, document = read_object(line, number)
        return _with_key(rules, number, key_of(document, number), text)

    return read


def _row_reader(rules: LineRules, rows: RowReader) -> Callable[[bytes, int], OutgoingRecord | None]:
    key_of = _key_of(rules)

    def read(line: bytes, number: int) -> OutgoingRecord | None:
        row = rows.row(line, number)
        if row is None:
            return None
        return _with_key(rules, rows.first_line, key_of(row, rows.first_line), msgspec.json.encode(row))

    return read


def _key_of(rules: LineRules) -> Callable[[Mapping[str, Any], int], bytes | None]:
    if rules.key_field is None:
        return lambda _document, _number: rules.key
    return key_reader(rules.key_field, missing_is_null=rules.missing_key_is_null)


def _with_key(rules: LineRules, number: int, key: bytes | None, value: bytes) -> OutgoingRecord:
    return OutgoingRecord(line=number, key=key, value=value, headers=rules.headers, partition=rules.partition)


def _text_reader(rules: LineRules) -> Callable[[bytes, int], OutgoingRecord]:
    def read(line: bytes, number: int) -> OutgoingRecord:
        key, value = rules.key, line
        if rules.separator:
            key, separator, value = line.partition(rules.separator)
            if not separator:
                raise LineRefused(f"line {number} has no {_shown(rules.separator)} between a key and a value")
        return OutgoingRecord(
            line=number,
            key=key,
            value=None if rules.empty_is_null and not value else value,
            headers=rules.headers,
            partition=rules.partition,
        )

    return read


def _json_reader(rules: LineRules) -> Callable[[bytes, int], OutgoingRecord]:
    def read(line: bytes, number: int) -> OutgoingRecord:
        record = read_record(line, number)
        return msgspec.structs.replace(
            record,
            key=record.key if record.key is not None else rules.key,
            value=None if rules.empty_is_null and not record.value else record.value,
            headers=rules.headers + record.headers,
            partition=record.partition if rules.partition is None else rules.partition,
        )

    return read


def parse_separator(text: str) -> bytes:
    """Returns the separator in bytes. A shell passes ``\\t`` as two characters; this replaces them by a tab."""
    for written, meant in _ESCAPES.items():
        text = text.replace(written, meant)
    return text.encode("utf-8", "surrogateescape")


def _shown(separator: bytes) -> str:
    return repr(separator.decode("utf-8", "replace"))


def parse_headers(texts: Iterable[str]) -> tuple[RecordHeader, ...]:
    """Parses NAME=VALUE texts. Raises NoHeader."""
    headers: list[RecordHeader] = []
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator:
            raise NoHeader(f"--header {text!r}: write NAME=VALUE")
        headers.append((name, value.encode("utf-8", "surrogateescape")))
    return tuple(headers)
