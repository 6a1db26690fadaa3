"""``siltstone sql QUERY``: topics of a store as tables, for a first look without Spark."""

import csv
import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from siltstone.cli.output import json_text, remark, results, table
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.server.querying import QueryChoice, QueryRows, run_query

SHOWN_MAX = 1_000
"""Rows that are drawn as a table, whose columns are as wide as the widest row; the other formats have no limit."""

_FORMATS = ("table", "json", "csv")
_VALUES = ("auto", "raw", "string", "json", "avro", "protobuf")


@click.command()
@click.argument("query", metavar="QUERY")
@click.option(
    "--format", "shape", type=click.Choice(_FORMATS), default="table", metavar="table, json or csv",
    help="Print a table, one JSON object a line, or CSV with a header.",
)  # fmt: skip
@click.option(
    "--value", type=click.Choice(_VALUES), default="auto", metavar="FORMAT",
    help="Decode values as raw, string, json, avro or protobuf [by the first values].",
)  # fmt: skip
@click.option(
    "--registry", default="", metavar="URL", help="Schema registry for avro and protobuf, or a folder."
)
@click.option(
    "--tail", type=click.Choice(("auto", "fetch", "flush", "committed")), default="auto", metavar="HOW",
    help="What to do about records that are in no object yet: ask the broker (auto), have it upload them first "
    "(flush), or leave out (committed).",
)  # fmt: skip
@store_options
def sql(choice: StoreChoice, query: str, shape: str, value: str, registry: str, tail: str) -> None:
    """Query topics with SQL, in this process, by DuckDB.

    Each topic that the query names is read anew, straight from the buckets, into a table of that name: the fields of
    its values, and a struct kafka with partition, offset, timestamp and key. Values that are no JSON objects are one
    column, value. Write names with dots or dashes in double quotes.

    The command reads whole topics into a temporary folder. It is for a first look; use Spark for large topics. Needs
    the extra siltstone[sql].
    """
    with choice.open() as store, run_query(store, query, QueryChoice(value, registry, tail)) as found:
        for note in found.notes:
            remark(note)
        {"table": _print_table, "json": _print_json, "csv": _print_csv}[shape](found)


def _print_table(found: QueryRows) -> None:
    drawn = table(*found.columns)
    more = 0
    for number, row in enumerate(found.rows):
        if number < SHOWN_MAX:
            drawn.add_row(*map(_cell, row))
        else:
            more += 1
    results().print(drawn)
    if more:
        remark(f"and {more:,} more rows: --format csv or json prints all")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return value.hex() if isinstance(value, bytes) else str(value)


def _print_json(found: QueryRows) -> None:
    for row in found.rows:
        text = msgspec.json.encode(dict(zip(found.columns, row, strict=True)), enc_hook=str).decode()
        sys.stdout.write(json_text(text, sys.stdout.encoding) + "\n")


def _print_csv(found: QueryRows) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerows(_lines(found))


def _lines(found: QueryRows) -> Iterable[list[str]]:
    yield list(found.columns)
    for row in found.rows:
        yield [_cell(value) for value in row]
