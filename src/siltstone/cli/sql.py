"""``siltstone sql QUERY``: topics of a store, and its metadata, as tables, for a first look without Spark."""

import csv
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import islice
from typing import Any

import click
import msgspec

from siltstone.cli.output import is_drawn, json_text, remark, results, table
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.kafka_client.positions import parse_time_ms
from siltstone.metadata_tables.catalog import METADATA_TABLES, MetadataTables, TableOfMoment
from siltstone.metadata_tables.reading import read_tables
from siltstone.offline.opening.store import Store
from siltstone.scanning.querying import QueryChoice, QueryRows, run_query

SHOWN_MAX = 1_000
"""Rows that are drawn as a table, whose columns are as wide as the widest row; the other formats have no limit."""

CELL_WIDTH_MAX = 30
"""Characters: a longer cell is folded, or one long text would leave no room for the other columns."""
LAST_WIDTH_MAX = 24
BETWEEN = 2
LEFT_OUT_FROM = 3
"""Fewer columns are folded and not left out."""
MORE = "…"
GAP = -1
"""Stands among the numbers of columns where some are left out."""

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
    "--columns", default="", metavar="COLUMNS",
    help="Find the columns of JSON values, with _rescued_data for what none can take: infer, or infer and columns "
    "whose types you know, as in 'infer, at timestamp'.",
)  # fmt: skip
@click.option(
    "--registry", default="", metavar="URL", help="Schema registry for avro and protobuf, or a folder."
)
@click.option(
    "--tail", type=click.Choice(("auto", "fetch", "flush", "committed")), default="auto", metavar="HOW",
    help="What to do about records that are in no object yet: ask the broker (auto), have it upload them first "
    "(flush), or leave out (committed).",
)  # fmt: skip
@click.option(
    "--isolation", type=click.Choice(("committed", "uncommitted")), default="committed", metavar="LEVEL",
    help="Read records of transactions when they are committed, or all records (uncommitted).",
)  # fmt: skip
@click.option(
    "--metadata-version",
    type=click.IntRange(min=0),
    metavar="N",
    help="Read the tables of the metadata as they were at this version [the newest].",
)
@click.option(
    "--as-of",
    metavar="TIME",
    help="Read the tables of the metadata as they were at this time: 2013-07-01T12:30, 2h ago or @1372636800000.",
)
@store_options
def sql(
    choice: StoreChoice,
    query: str,
    shape: str,
    value: str,
    columns: str,
    registry: str,
    tail: str,
    isolation: str,
    metadata_version: int | None,
    as_of: str | None,
) -> None:
    """Query topics and the metadata with SQL, in this process, by DuckDB.

    Each topic that the query names is read from the buckets each time, into a table of that name. Its columns are
    the fields of the values, and a struct kafka with partition, offset, timestamp and key. Values that are no JSON
    objects are one column, value. Write names with dots or dashes in double quotes. A table that is wider than the
    terminal leaves columns out and says how many; a pipe receives all of them.

    The metadata is in tables of the schema siltstone, such as siltstone.objects: topics, partitions, streams, objects,
    object_ranges, buckets, nodes, groups, group_lags, jobs, tables, sinks and log. No broker is asked for them.

    The command reads whole topics into a temporary folder. It is for a first look; use Spark for large topics. Needs
    the extra siltstone[sql].
    """
    words = QueryChoice(value, registry, tail, isolation, columns=columns)
    with (
        choice.open() as store,
        run_query(store.context, query, words, _Metadata(store, metadata_version, as_of)) as found,
    ):
        for note in found.notes:
            remark(note)
        {"table": _print_table, "json": _print_json, "csv": _print_csv}[shape](found)


class _Metadata:
    """The tables of the metadata, which are read when a query names one of them."""

    names = tuple(METADATA_TABLES)

    def __init__(self, store: Store, version: int | None, as_of: str | None) -> None:
        self._store = store
        self._version = version
        now_ms = store.context.clock.now_ms()
        self._as_of_ms = None if as_of is None else parse_time_ms(as_of, "--as-of", now_ms)

    def table(self, name: str) -> TableOfMoment:
        return self._tables.table(name)

    @cached_property
    def _tables(self) -> MetadataTables:
        context = self._store.context
        return read_tables(
            self._store.settings,
            lambda: nullcontext(context),
            version=self._version,
            as_of_ms=self._as_of_ms,
            clock=context.clock,
        )


def _print_table(found: QueryRows, shown_max: int = SHOWN_MAX) -> None:
    rows = [[*map(_cell, row)] for row in islice(found.rows, shown_max)]
    more = sum(1 for _ in found.rows)
    shown = [*range(len(found.columns))]
    if is_drawn():
        widths = [
            min(CELL_WIDTH_MAX, max(len(name), *(len(row[number]) for row in rows), 0))
            for number, name in enumerate(found.columns)
        ]
        shown = columns_shown(found.columns, widths, results().width)
    left_out = len(found.columns) - len(shown) + (GAP in shown)
    drawn = table(*(MORE if number == GAP else found.columns[number] for number in shown))
    for row in rows:
        drawn.add_row(*(MORE if number == GAP else row[number] for number in shown))
    results().print(drawn)
    if left_out:
        remark(
            f"{left_out} of {len(found.columns)} columns are left out: name columns in the query, or print to a pipe"
        )
    if more:
        remark(f"and {more:,} more rows: --format csv or json prints all")


def columns_shown(names: Sequence[str], widths: Sequence[int], width: int) -> list[int]:
    """Returns the numbers of the columns that fit into ``width`` characters. ``widths`` has that of each column, and
    BETWEEN characters part two columns. If not all fit, the result has the first ones, then GAP, then the column kafka,
    or the last column if there is no kafka. Pure."""
    if sum(widths) + BETWEEN * (len(widths) - 1) <= width or len(names) < LEFT_OUT_FROM:
        return [*range(len(names))]
    last = names.index("kafka") if "kafka" in names else len(names) - 1
    others = [number for number in range(len(names)) if number != last]
    left = width - min(widths[last], LAST_WIDTH_MAX) - BETWEEN - len(MORE) - BETWEEN
    shown: list[int] = []
    for number in others:
        left -= widths[number] + BETWEEN
        if shown and left < 0:
            break
        shown.append(number)
    return [*shown, GAP, last] if len(shown) < len(others) else [*shown, last]


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
