"""The options of ``siltstone tail`` and ``siltstone consume`` that say how a record is printed."""

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from siltstone.cli.tail.filters import record_filter
from siltstone.cli.tail.formats import FORMATS, JSON, TEXT, Columns, FormatChoice, Writer, record_writer

F = TypeVar("F", bound=Callable[..., Any])


def record_options(command: F) -> F:
    """Adds --grep and --where, which the command receives as one ``matches`` (``record_filter``); and --format,
    --json-values, --compact, --timestamps, --offsets, --key, --headers and --all. The command has --json as well, and
    receives these as one ``write``: a function that formats a record."""
    options = (
        click.option("--grep", metavar="TEXT", help="Show only records whose key or value contains this text."),
        click.option(
            "--where", metavar="EXPRESSION",
            help="Show only records for which this is true, in the language of siltstone sql: \"carrier = 'UA' and "
            "kafka.offset > 9\"; value.carrier is the field carrier, too, and value and key are text. Needs the extra "
            "siltstone[sql].",
        ),
        click.option(
            "-f", "--format", "line_format", type=FormatChoice(), default=TEXT,
            metavar=f"{'|'.join(FORMATS)}|TEMPLATE",
            help="text (default): control characters are escaped; json: one object per line; raw: the bytes of the "
            "values; or a template of %t topic, %p partition, %o offset, %k key, %s value, %T timestamp in ms, "
            "%h headers, such as '%k: %s\\n'.",
        ),
        click.option(
            "--json-values", is_flag=True,
            help="As --format json, with each value that is JSON as it is instead of as a string: for jq .value.name.",
        ),
        click.option(
            "--compact", is_flag=True,
            help="One line for each record at a terminal, too, where text shows JSON objects on several.",
        ),
        click.option("--timestamps", is_flag=True, help="Show the timestamp (UTC)."),
        click.option("--offsets", is_flag=True, help="Show partition:offset."),
        click.option("--key", is_flag=True, help="Show the key."),
        click.option("--headers", is_flag=True, help="Show the headers."),
        click.option("--all", "all_columns", is_flag=True, help="Show timestamp, offset, key and headers."),
    )  # fmt: skip

    def with_writer(
        *,
        grep: str | None,
        where: str | None,
        compact: bool,
        line_format: str,
        json_values: bool,
        timestamps: bool,
        offsets: bool,
        key: bool,
        headers: bool,
        all_columns: bool,
        as_json: bool,
        **arguments: Any,
    ) -> Any:
        columns = Columns(
            timestamps=timestamps or all_columns, offsets=offsets or all_columns, key=key or all_columns,
            headers=headers or all_columns,
        )  # fmt: skip
        write = _writer(line_format, columns, as_json, json_values, compact)
        return command(write=write, matches=record_filter(grep, where), **arguments)

    with_writer.__doc__ = command.__doc__
    with_writer.__name__ = command.__name__
    with_writer.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(options):
        with_writer = option(with_writer)
    return with_writer  # type: ignore[return-value]


def _writer(line_format: str, columns: Columns, as_json: bool, json_values: bool, compact: bool) -> Writer:
    name = JSON if as_json or json_values else line_format
    return record_writer(
        name, columns, in_colour=_in_colour(), json_values=json_values,
        unfolded=sys.stdout.isatty() and not compact,
    )  # fmt: skip


def _in_colour() -> bool:
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
