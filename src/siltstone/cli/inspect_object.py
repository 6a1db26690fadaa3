"""``siltstone inspect OBJECT``: shows the header, the index and the batches of one object."""

from contextlib import ExitStack

import click

from siltstone.cli.inspecting.anatomy import Anatomy, blocks_of, dissect
from siltstone.cli.inspecting.source import ObjectPlace, find_object
from siltstone.cli.inspecting.tables import as_json, batches_table, header_facts, index_table
from siltstone.cli.output import print_json, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.model.record_batch import BlockEntry


@click.command("inspect")
@click.argument("name", metavar="OBJECT")
@click.option("--blocks", is_flag=True, help="Read the blocks, too: verify each and list its batches.")
@click.option("--stream", "stream_id", type=int, metavar="ID", help="Show only the blocks of this stream.")
@json_option
@store_options
def inspect(choice: StoreChoice, name: str, blocks: bool, stream_id: int | None, as_json: bool) -> None:
    """Show what an object holds: header, index, and its batches.

    OBJECT is an id (12), a key (4f/objects/00000000000000000012), a file, or a URL (s3://bucket/key); a file or a URL
    needs no store. If the object is damaged, the error says where, and the exit status is 1.
    """
    with ExitStack() as opened:
        source = find_object(name, choice, opened)
        anatomy = dissect(source)
        entries = [entry for entry in anatomy.index if stream_id in (None, entry.stream_id)]
        show = _show_as_json if as_json else _show_tables
        show(source, anatomy, entries, blocks)


def _show_tables(source: ObjectPlace, anatomy: Anatomy, entries: list[BlockEntry], blocks: bool) -> None:
    out = results()
    out.print(header_facts(source, anatomy), "", index_table(entries), sep="\n")
    if blocks:
        for contents in blocks_of(source, entries):
            out.print("", batches_table(contents), sep="\n")


def _show_as_json(source: ObjectPlace, anatomy: Anatomy, entries: list[BlockEntry], blocks: bool) -> None:
    contents = list(blocks_of(source, entries)) if blocks else None
    print_json(as_json(source, anatomy, entries, contents))
