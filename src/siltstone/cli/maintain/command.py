"""``siltstone maintain``: the group of all commands for maintenance."""

import click

from siltstone.cli.in_order import InOrder
from siltstone.cli.maintain.cancel import cancel
from siltstone.cli.maintain.explain import explain
from siltstone.cli.maintain.plan import plan
from siltstone.cli.maintain.run import run
from siltstone.cli.maintain.serve import serve
from siltstone.cli.maintain.status import status
from siltstone.cli.maintain.sweep import sweep
from siltstone.cli.maintain.unpin import unpin


@click.group(cls=InOrder, invoke_without_command=True)
@click.pass_context
def maintain(context: click.Context) -> None:
    """Maintain a store: retention, garbage collection, compaction.

    Start with siltstone maintain plan, which shows what would be done and changes nothing; siltstone maintain explain
    shows why.

    \b
    Words:
    unit       a part of a plan that is committed by itself, such as a topic
    job        one run of one kind of maintenance, recorded in the metadata
    driver     the process that carries out a job
    set aside  a unit that failed; it is retried later
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (plan, run, status, explain, cancel, unpin, serve, sweep):
    maintain.add_command(command)
