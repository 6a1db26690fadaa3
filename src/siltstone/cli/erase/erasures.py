"""``siltstone erasures``: lists the erasures of a store; resumes, reports or forgets one."""

from pathlib import Path

import click

from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.erase.command import show_report
from siltstone.cli.erase.following import carried_out, newest_report
from siltstone.cli.erase.signing import refuse_key_without_file, sign_option
from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, results, table
from siltstone.cli.runner_options import RunnerChoice, runner_options
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell, count_words
from siltstone.maintenance.erasing import erasure_named, forget_erasure
from siltstone.maintenance.erasure.report import report_of
from siltstone.offline.erasures import erasures_of


@click.group(cls=InOrder, invoke_without_command=True)
@json_option
@store_options
@click.pass_context
def erasures(context: click.Context, choice: StoreChoice, as_json: bool) -> None:
    """List the erasures of a store; resume, report or forget one.

    siltstone erase makes one. It stays, because a store that is restored from an older backup has to apply it again.
    """
    if context.invoked_subcommand is None:
        list_erasures(choice, as_json)


@erasures.command("list")
@json_option
@store_options
def list_(choice: StoreChoice, as_json: bool) -> None:
    """List the erasures of a store, as siltstone erasures does."""
    list_erasures(choice, as_json)


def list_erasures(choice: StoreChoice, as_json: bool) -> None:
    with choice.open() as store:
        image = store.metadata.refresh()
        reports = [report_of(image, each, store.context.now_ms()) for each in erasures_of(image)]
    if as_json:
        print_json({"erasures": reports})
        return
    if not reports:
        results().print("Nothing was erased by key.")
        return
    shown = table("erasure", "topic", ">keys", "requested (UTC)", "state", ">objects", ">records")
    for each in reports:
        shown.add_row(
            each.erasure,
            cell(each.topic),
            count_words(len(each.keys)),
            each.requested.replace("T", " ")[:19],
            each.state,
            count_words(len(each.objects)),
            count_words(each.records),
        )
    results().print(shown)


@erasures.command()
@click.argument("erasure", metavar="ERASURE")
@click.option("--wait", is_flag=True, help="Wait until no bucket has the replaced objects any more.")
@sign_option
@runner_options
@json_option
@store_options
def resume(
    choice: StoreChoice,
    erasure: str,
    wait: bool,
    signing_key: Path | None,
    out: Path | None,
    runner: RunnerChoice,
    as_json: bool,
) -> None:
    """Continue an erasure that was interrupted, until no record of its keys is left."""
    refuse_key_without_file(out, signing_key)
    runner.check()
    with choice.open() as store:
        erasure_named(store.context, erasure)
        found = carried_out(store, erasure, runner, wait=wait, as_json=as_json)
    show_report(found, signing_key, out, as_json=as_json)


@erasures.command()
@click.argument("erasure", metavar="ERASURE")
@sign_option
@json_option
@store_options
def report(
    choice: StoreChoice, erasure: str, signing_key: Path | None, out: Path | None, as_json: bool
) -> None:
    """Show the report of an erasure: which objects held records of the keys, and what has become of them.

    The buckets are asked whether they still have the objects."""
    refuse_key_without_file(out, signing_key)
    with choice.open() as store:
        found = newest_report(store, erasure)
    show_report(found, signing_key, out, as_json=as_json)


@erasures.command()
@click.argument("erasure", metavar="ERASURE")
@yes_option
@store_options
def forget(choice: StoreChoice, erasure: str, is_answered: bool) -> None:
    """Forget an erasure, once every backup that is older than it is gone.

    A store that is restored from an older backup would have the records again. Write the report to a file first."""
    with choice.open() as store:
        confirm(
            f"Forget erasure {erasure}, so that no restored store applies it again?", is_answered=is_answered
        )
        forget_erasure(store.context, erasure)
    results().print(f"Erasure {erasure} was forgotten.", markup=False, soft_wrap=True)
