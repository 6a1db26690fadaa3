"""``siltstone maintain``: the group."""

import click

from siltstone.cli.in_order import InOrder
from siltstone.cli.maintain.cancel import cancel
from siltstone.cli.maintain.explain import explain
from siltstone.cli.maintain.plan import plan
from siltstone.cli.maintain.run import run
from siltstone.cli.maintain.serve import serve
from siltstone.cli.maintain.status import status
from siltstone.cli.maintain.sweep import sweep


@click.group(cls=InOrder, invoke_without_command=True)
@click.pass_context
def maintain(context: click.Context) -> None:
    """Keep a store in order: retention, garbage collection, compaction.

    The docs say what each kind does and when: docs/maintenance.md
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (plan, run, status, explain, cancel, serve, sweep):
    maintain.add_command(command)
