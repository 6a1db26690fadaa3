"""``siltstone backup TO``: a backup of a store, while brokers run."""

from pathlib import Path

import click

from siltstone.backups.backing_up import back_up
from siltstone.cli.output import copying_shown, print_json, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import counted, size_words
from siltstone.object_store.opening import open_store as open_bucket
from siltstone.scanning.flushing import flush_nodes


@click.command()
@click.argument("to", type=click.Path(path_type=Path), metavar="TO")
@click.option(
    "--objects", metavar="URL",
    help="Copy the objects, too, into this bucket: s3://bucket/prefix or file:///folder. What is there is kept.",
)  # fmt: skip
@click.option(
    "--flush", is_flag=True,
    help="Have all nodes upload first what they have acknowledged, so that this is in the backup, too.",
)  # fmt: skip
@json_option
@store_options
def backup(choice: StoreChoice, to: Path, objects: str | None, flush: bool, as_json: bool) -> None:
    """Back up a store into the new folder TO, while brokers run.

    The folder gets a copy of the metadata, from SQLite or PostgreSQL, with every version that the log still has. With
    --objects the objects of all these versions are copied, too; several backups may share that bucket, and only what is
    new is copied. The newest records, of a minute or so, are only in the logs of
    brokers, and in no backup. With --flush all nodes upload them first; if a node does not do so within 30 s, no backup
    is made.

    siltstone restore makes a store from it.
    """
    with choice.open() as store:
        target = None if objects is None else open_bucket(objects, create=True)
        if flush:
            flush_nodes(store.context)
        with copying_shown() as shown:
            made, copied = back_up(store.settings, store.context, to.absolute(), target, shown)
    if as_json:
        print_json(
            {
                "folder": str(to),
                "manifest": made,
                "copied_bytes": 0 if copied is None else copied.copied_bytes,
            }
        )
        return
    out = results()
    out.print(
        f"The metadata at version {made.version} is in {to}, and can be restored from version {made.oldest} on.",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    if copied is not None:
        out.print(
            f"{counted(copied.count, 'object')}, {size_words(copied.size_bytes)}, are in {made.objects}; "
            f"{size_words(copied.copied_bytes)} of it were copied now.",
            markup=False, soft_wrap=True,
        )  # fmt: skip
        if copied.missing:
            out.print(f"{counted(len(copied.missing), 'object')} of earlier versions were deleted already.")
