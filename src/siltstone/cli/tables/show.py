"""``siltstone tables show TOPIC``: columns, files and ledger of a table, read from the table itself."""

from collections.abc import Sequence

import click

from siltstone.cli.output import facts, print_json, result, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell, count_words, size_words
from siltstone.foundation.quantity_words import time_words
from siltstone.tables.formats.port import LoadedTable, TableFile
from siltstone.tables.inspecting import deletes_in_words, file_urls, opened_table, url_of


@click.command()
@click.argument("topic", metavar="TOPIC")
@click.option("--errors", "dead_letters", is_flag=True, help="Show the table of dead letters instead.")
@click.option("--files", "is_files", is_flag=True, help="Print the URLs of the data files only, one a line.")
@json_option
@store_options
def show(choice: StoreChoice, topic: str, dead_letters: bool, is_files: bool, as_json: bool) -> None:
    """Show the table of a topic: its place, its columns, and up to which offset each partition was exported.

    Give a reader of Iceberg the place, which is a metadata file, or the catalog. Give a reader of Parquet the list of
    the files (--files), because the folder of a plain Parquet table may also hold files of interrupted exports. It is
    refused when another program has deleted rows that are still in a file.
    """
    with choice.open() as store:
        settings = store.kind_settings.tables
        with opened_table(store.context, settings, topic, dead_letters=dead_letters) as opened:
            if is_files:
                for url in file_urls(opened, settings):
                    result(url)
            elif as_json:
                files = list(opened.files())
                print_json(_as_json(opened, files, [url_of(opened, each, settings) for each in files]))
            else:
                _print(opened)


def _as_json(opened: LoadedTable, files: Sequence[TableFile], urls: list[str]) -> dict[str, object]:
    ledger = opened.ledger
    return {
        "table": opened.name,
        "place": opened.place,
        "rows": opened.rows,
        "deleted_rows": sum(each.deleted_rows for each in files),
        "files_with_other_rows": [url for url, each in zip(urls, files, strict=True) if each.other_rows],
        "columns": dict(_columns(opened)),
        "partition_by": [each.name for each in opened.partition_by],
        "offsets": {str(number): end for number, end in sorted(ledger.offsets.items())},
        "gaps": [[each.partition, each.start_offset, each.end_offset] for each in ledger.gaps],
        "exported_ms": ledger.committed_ms,
        "files": urls,
    }


def _columns(opened: LoadedTable) -> list[tuple[str, str]]:
    from siltstone.value_formats.column_arrays import plain_type  # noqa: PLC0415  loads pyarrow, as opening the table has

    return [(field.name, str(plain_type(field.type))) for field in opened.schema]


def _print(opened: LoadedTable) -> None:
    ledger, files = opened.ledger, list(opened.files())
    out = results()
    out.print(
        facts(
            table=opened.name,
            place=opened.place,
            rows=count_words(opened.rows),
            deleted=deletes_in_words(files) or None,
            files=f"{count_words(len(files))}, {size_words(sum(each.size_bytes for each in files))}",
            divided=", ".join(each.name for each in opened.partition_by) or "by nothing",
            exported=time_words(ledger.committed_ms or -1),
        )
    )
    columns = table("column", "type")
    for name, kind in _columns(opened):
        columns.add_row(cell(name), cell(kind))
    out.print(columns)
    offsets = table(">partition", ">exported up to")
    for number, end in sorted(ledger.offsets.items()):
        offsets.add_row(str(number), count_words(end))
    out.print(offsets)
    if ledger.gaps:
        gaps = table(">partition", ">removed from", ">up to")
        for each in ledger.gaps:
            gaps.add_row(str(each.partition), count_words(each.start_offset), count_words(each.end_offset))
        out.print(gaps)
