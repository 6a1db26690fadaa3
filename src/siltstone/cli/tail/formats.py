"""The line that ``siltstone tail`` and ``siltstone consume`` print for a record. Pure.

=====  ==========================================================================================================
text   columns separated by tabs, control characters escaped, so that a record is always one line; at a terminal a
       value that is a JSON object is unfolded below its columns: see ``json_lines``
json   the whole record as one JSON object: see ``json_records``
raw    the bytes of the value and a line end; an empty line for null
%...   what the template says: see ``templates``
=====  =============================================================================================
"""

from collections.abc import Callable
from datetime import UTC, datetime

import click
import msgspec
from click.shell_completion import CompletionItem

from siltstone.cli.json_records import written_record
from siltstone.cli.tail.json_lines import json_lines
from siltstone.cli.tail.templates import parse_template
from siltstone.cli.words import shown, shown_bytes
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.buffers import Buffer
from siltstone.model.record_batch import NO_TIMESTAMP

TEXT, JSON, RAW = "text", "json", "raw"
FORMATS = (TEXT, JSON, RAW)

NULL = "<null>"
_PLAIN = "\x1b[0m"
_DIM, _CYAN, _GREEN, _YELLOW = "\x1b[2m", "\x1b[36m", "\x1b[32m", "\x1b[33m"

Writer = Callable[[TopicPartition, Record], bytes]


class Columns(msgspec.Struct, frozen=True, kw_only=True):
    """The columns before the value in format text."""

    timestamps: bool = False
    offsets: bool = False
    key: bool = False
    headers: bool = False


def record_writer(
    line_format: str,
    columns: Columns,
    *,
    in_colour: bool,
    json_values: bool = False,
    unfolded: bool = False,
) -> Writer:
    """Returns a function that formats a record as one line, line end included. ``in_colour``: for format text only.
    ``json_values``: format json shows a value that is JSON as it is, not as a string. ``unfolded``: format
    text shows JSON objects on several lines. Raises TemplateRefused."""
    if "%" in line_format:
        return parse_template(line_format)
    if line_format == RAW:
        return lambda _, record: bytes(record.value or b"") + b"\n"
    if line_format == JSON:
        return lambda where, record: (
            written_record(where.topic, where.partition, record, json_values=json_values) + b"\n"
        )
    paint = _painted if in_colour else _unpainted
    return lambda where, record: _lines(where, record, columns, paint, unfolded).encode()


def _lines(
    where: TopicPartition, record: Record, columns: Columns, paint: Callable[[str, str], str], unfolded: bool
) -> str:
    cells = _cells(where, record, columns, paint)
    below = json_lines(record.value, paint) if unfolded else None
    if below is None:
        return "\t".join([*cells, _bytes_cell(record.value, "", paint)]) + "\n"
    return "\n".join([*(["\t".join(cells)] if cells else []), *below]) + "\n"


def _cells(
    where: TopicPartition, record: Record, columns: Columns, paint: Callable[[str, str], str]
) -> list[str]:
    cells: list[str] = []
    if columns.timestamps:
        cells.append(paint(moment_words(record.timestamp_ms), _DIM))
    if columns.offsets:
        cells.append(paint(f"{where.partition}:{record.offset}", _CYAN))
    if columns.key:
        cells.append(_bytes_cell(record.key, _GREEN, paint))
    if columns.headers:
        cells.append(paint(_headers_words(record), _YELLOW))
    return cells


def _bytes_cell(data: Buffer | None, colour: str, paint: Callable[[str, str], str]) -> str:
    return paint(NULL, _DIM) if data is None else paint(shown_bytes(data), colour)


def _headers_words(record: Record) -> str:
    return " ".join(
        f"{shown(name)}={NULL if value is None else shown_bytes(value)}" for name, value in record.headers
    )


def _painted(text: str, colour: str) -> str:
    return f"{colour}{text}{_PLAIN}" if colour and text else text


def _unpainted(text: str, _: str) -> str:
    return text


def moment_words(timestamp_ms: int) -> str:
    """Returns the time in UTC to the millisecond, always 23 characters; ``-`` for no timestamp, and the number itself
    for a time outside the years 1 to 9999."""
    if timestamp_ms == NO_TIMESTAMP:
        return f"{'-':23}"
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms:23}"
    return f"{moment.replace(tzinfo=None).isoformat(' ', 'seconds')}.{timestamp_ms % 1000:03}"


class FormatChoice(click.ParamType[str]):
    """A name in FORMATS, or a template, which has a ``%``."""

    name = "format"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in FORMATS and "%" not in value:
            names = ", ".join(FORMATS)
            self.fail(f"{value!r} is not one of {names}, nor a template such as '%k %s\\n'.", param, ctx)
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in FORMATS if name.startswith(incomplete)]
