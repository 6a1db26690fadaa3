"""``siltstone metadata``: the group of the commands for the metadata of a store."""

import click

from siltstone.cli.in_order import InOrder
from siltstone.cli.metadata.copy import copy


@click.group(cls=InOrder, invoke_without_command=True)
@click.pass_context
def metadata(context: click.Context) -> None:
    """Move the metadata of a store to another database.

    With the metadata in PostgreSQL, processes on several machines share the store.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


metadata.add_command(copy)
