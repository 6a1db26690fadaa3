"""``siltstone compact``: a hidden alias of ``siltstone maintain run --kind sso-compaction``, kept for one release."""

import click

from siltstone.carrying.pipeline.kind import Budget
from siltstone.cli.maintain.plan import show_plan
from siltstone.cli.maintain.run import carry_out
from siltstone.cli.output import remarks
from siltstone.cli.runner_options import RunnerChoice, runner_options
from siltstone.cli.store_options import StoreChoice, json_option, store_options

KINDS = ("sso-compaction",)


@click.command(hidden=True)
@click.option("--dry-run", is_flag=True, help="Only show the plan, like siltstone maintain plan.")
@runner_options
@json_option
@store_options
def compact(choice: StoreChoice, dry_run: bool, runner: RunnerChoice, as_json: bool) -> None:
    """Compact stream set objects. Use siltstone maintain run --kind sso-compaction instead."""
    remarks().print("siltstone compact is now: siltstone maintain run --kind sso-compaction", style="dim")
    if dry_run:
        show_plan(choice, KINDS, (), force=False, as_json=as_json)
    else:
        carry_out(choice, KINDS, (), runner, budget=Budget(), as_json=as_json)
