"""Parses a line of input into a record. Pure."""

from collections.abc import Callable, Iterable

import msgspec

from siltstone.cli.json_records import LineRefused, read_record
from siltstone.kafka_client.producing.delivery import OutgoingRecord
from siltstone.kafka_protocol.records.reading import RecordHeader
from siltstone.model.errors import InvalidRequest

TEXT, JSON = "text", "json"
FORMATS = (TEXT, JSON)

_ESCAPES = {"\\t": "\t", "\\n": "\n", "\\0": "\0", "\\\\": "\\"}


class NoHeader(InvalidRequest):
    """The value of --header is not NAME=VALUE."""


class LineRules(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command. ``key``: the key of every record that has none of its own. ``separator``: splits a
    line into key and value; b"" for lines without keys. ``headers``: added to every record, before its own.
    ``empty_is_null``: an empty value is sent as null."""

    line_format: str = TEXT
    separator: bytes = b""
    key: bytes | None = None
    headers: tuple[RecordHeader, ...] = ()
    partition: int | None = None
    empty_is_null: bool = False


def line_reader(rules: LineRules) -> Callable[[bytes, int], OutgoingRecord]:
    """A function (line, number of the line) → record, which raises LineRefused."""
    return _json_reader(rules) if rules.line_format == JSON else _text_reader(rules)


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
    """The separator in bytes. A shell passes ``\\t`` as two characters; this replaces them by a tab."""
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
