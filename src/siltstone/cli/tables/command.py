"""``siltstone tables``: lists the topics that are kept as tables; the parent of the commands for tables."""

import click
from msgspec.structs import asdict
from rich.text import Text

from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, remarks, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.tables.explain import explain
from siltstone.cli.tables.forget import forget
from siltstone.cli.tables.replay import replay
from siltstone.cli.tables.show import show
from siltstone.cli.words import cell, count_words, counted, size_words
from siltstone.foundation.quantity_words import time_words
from siltstone.tables.inspecting import TableRow, table_rows


@click.group(cls=InOrder, invoke_without_command=True)
@json_option
@store_options
@click.pass_context
def tables(context: click.Context, choice: StoreChoice, as_json: bool) -> None:
    """List the topics that are kept as tables; show, explain, replay or forget a table.

    A topic is kept as a table when its configuration siltstone.table.format is set, for instance with
    siltstone topics configure flights siltstone.table.format=iceberg. siltstone maintain run exports it.
    """
    if context.invoked_subcommand is None:
        list_tables(choice, as_json)


@tables.command("list")
@json_option
@store_options
def list_(choice: StoreChoice, as_json: bool) -> None:
    """List the topics that are kept as tables, as siltstone tables does."""
    list_tables(choice, as_json)


def list_tables(choice: StoreChoice, as_json: bool) -> None:
    with choice.open() as store:
        rows = table_rows(store.metadata.refresh())
    if as_json:
        print_json({"tables": [asdict(row) for row in rows]})
        return
    if not rows:
        results().print("No topic is kept as a table.")
        return
    shown = table("topic", "table", "format", ">rows", ">dead letters", ">lag", "last export (UTC)")
    for row in rows:
        shown.add_row(*_cells(row))
    results().print(shown)
    for row in rows:
        for line in _remarks(row):
            remarks().print(f"{row.topic}: {line}", markup=False, soft_wrap=True)


def _cells(row: TableRow) -> tuple[str | Text, ...]:
    lag = f"{count_words(row.lag_offsets)} ({size_words(row.lag_bytes)})" if row.lag_offsets else "0"
    return (
        cell(row.topic),
        cell(row.table),
        row.table_format,
        count_words(row.rows),
        count_words(row.dead_letters),
        lag,
        time_words(row.exported_ms or -1),
    )


def _remarks(row: TableRow) -> list[str]:
    lost = f"{counted(row.lost, 'offset')} had been removed before the export" if row.lost else ""
    return [line for line in (lost, row.trouble) if line]


for command in (show, explain, replay, forget):
    tables.add_command(command)
