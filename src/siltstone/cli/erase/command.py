"""``siltstone erase TOPIC``: removes all records of some keys from a topic, wherever they are."""

import sys
from contextlib import closing
from pathlib import Path

import click

from siltstone.carrying.pipeline.watch import Watch
from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.erase.following import carried_out
from siltstone.cli.erase.showing import dry_run_document, print_dry_run, print_report
from siltstone.cli.erase.signing import refuse_key_without_file, sign_option, write_report
from siltstone.cli.maintain.progress import Progress
from siltstone.cli.output import print_json, results
from siltstone.cli.runner_options import RunnerChoice, runner_options
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import counted
from siltstone.maintenance.erasing import ErasureRefused, look_for, request_erasure
from siltstone.maintenance.erasure.kind import ERASURE, ErasureLook
from siltstone.maintenance.erasure.report import ErasureReport
from siltstone.offline.opening.store import Store
from siltstone.offline.tasks.runner import LateRunner

STDIN = "-"


@click.command()
@click.argument("topic", metavar="TOPIC")
@click.option(
    "--key", "texts", multiple=True, metavar="TEXT", help="Erase the records with this key; repeatable."
)
@click.option(
    "--key-hex", "digits", multiple=True, metavar="HEX", help="A key as hexadecimal digits; repeatable."
)
@click.option(
    "--keys-from", "files", multiple=True, metavar="FILE", help="A file with one key a line; - is stdin."
)
@click.option(
    "--dry-run", is_flag=True, help="Only show which objects hold such records, and what erasing them costs."
)
@click.option(
    "--leave-tables",
    is_flag=True,
    help="Erase from a topic that is kept as a table, and leave the table's rows.",
)
@click.option("--wait", is_flag=True, help="Wait until no bucket has the replaced objects any more.")
@sign_option
@yes_option
@runner_options
@json_option
@store_options
def erase(
    choice: StoreChoice,
    topic: str,
    texts: tuple[str, ...],
    digits: tuple[str, ...],
    files: tuple[str, ...],
    dry_run: bool,
    leave_tables: bool,
    wait: bool,
    signing_key: Path | None,
    out: Path | None,
    is_answered: bool,
    runner: RunnerChoice,
    as_json: bool,
) -> None:
    """Remove all records of some keys from a topic, with a report of where they were.

    The brokers upload their newest records first, so every record that the topic has now is concerned; records that are
    produced later are not. Objects that hold such records are written again without them, as Spark tasks or in this
    process. Offsets do not change: consumers see a gap, as after key compaction. The replaced objects are deleted after
    sweep.grace_period_ms. The keys themselves are kept nowhere; the report names them by digests. Rows leave the
    topic's table and its dead letters, too, with the table's older states. Copies that others made of records, and
    backups with objects of their own, are not reached; a restore from an older backup applies the erasure again.

    A killed command is continued by siltstone erasures resume. Exit status 1 if something failed."""
    refuse_key_without_file(out, signing_key)
    keys = keys_of(texts, digits, files)
    runner.check()
    if dry_run:
        _show(choice, topic, keys, runner, as_json=as_json)
        return
    confirm(
        f"Erase all records of {counted(len(keys), 'key')} from {topic}, for good?", is_answered=is_answered
    )
    with choice.open() as store:
        erasure = request_erasure(store.context, topic, keys, leaves_tables=leave_tables)
        report = carried_out(store, erasure.erasure_id, runner, wait=wait, as_json=as_json)
    show_report(report, signing_key, out, as_json=as_json)


def keys_of(texts: tuple[str, ...], digits: tuple[str, ...], files: tuple[str, ...]) -> list[bytes]:
    """Returns the keys of the options, each once, in their order. Raises ErasureRefused."""
    keys = [each.encode("utf-8", "surrogateescape") for each in texts]
    for each in digits:
        try:
            keys.append(bytes.fromhex(each))
        except ValueError:
            raise ErasureRefused(
                f"--key-hex {each} is not hexadecimal: write two digits for each byte"
            ) from None
    for name in files:
        try:
            data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        except OSError as trouble:
            raise ErasureRefused(f"the keys in {name} cannot be read: {trouble.strerror}") from trouble
        keys += [line.removesuffix(b"\r") for line in data.split(b"\n") if line.removesuffix(b"\r")]
    if not keys:
        raise ErasureRefused("no key was given: name one with --key, or a file of keys with --keys-from")
    return list(dict.fromkeys(keys))


def show_report(report: ErasureReport, signing_key: Path | None, out: Path | None, *, as_json: bool) -> None:
    if out is not None:
        write_report(report, out, signing_key)
    if as_json:
        print_json(report)
    else:
        print_report(report)
        if out is not None:
            results().print(f"The report is in {out}.", markup=False, soft_wrap=True)


def _show(choice: StoreChoice, topic: str, keys: list[bytes], runner: RunnerChoice, *, as_json: bool) -> None:
    with choice.open() as store, Progress(store) as shown, closing(LateRunner(runner.start)) as late:
        watch = Watch(ERASURE, store.context.clock, on_step_progress=shown.show)
        looks = look_for(store.context, late.start, store.kind_settings, topic, keys, watch)
    _print(looks, store, as_json=as_json)


def _print(looks: list[ErasureLook], store: Store, *, as_json: bool) -> None:
    if as_json:
        print_json(dry_run_document(looks))
    else:
        print_dry_run(looks, store.kind_settings.grace_period_ms)
