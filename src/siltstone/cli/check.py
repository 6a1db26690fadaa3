"""``siltstone check``: verifies a store, as fsck does a file system, and repairs what can be repaired."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import click

from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.failures import FAILED, NOT_ALL_CHECKED, Failure
from siltstone.cli.output import print_json, progress, remarks, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options_of_buckets
from siltstone.cli.words import counted, size_words
from siltstone.maintenance.checking.check import check as check_store
from siltstone.maintenance.checking.findings import CheckReport, Finding, Severity
from siltstone.maintenance.checking.repair_plan import Repair, RepairPlan, plan_repair
from siltstone.maintenance.checking.repairing import RepairReport, repair, unrepaired
from siltstone.metadata.buckets import bucket_list_of
from siltstone.model.limits import COMPACTION_TIME_LIMIT_MS
from siltstone.offline.opening.store import Store
from siltstone.offline.opening.tree import values_of

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}

NOTES_SHOWN_MAX = 3
"""More notes of one kind are shown as one row: after a compaction hundreds of objects await deletion, and would hide
errors."""


@click.command()
@click.option(
    "--full/--indexes-only",
    "read_blocks",
    default=True,
    help="Read and verify every block (the default), or only the indexes.",
)
@click.option("--repair", "is_repair", is_flag=True, help="Carry out the repair plan, after confirmation.")
@yes_option
@json_option
@store_options_of_buckets  # fmt: skip
def check(choice: StoreChoice, read_blocks: bool, is_repair: bool, is_answered: bool, as_json: bool) -> None:
    """Verify a store: compare its metadata with its objects.

    Checks that every committed object exists, has correct checksums and covers the offsets that the metadata records,
    and that every offset of every stream is in exactly one object; lists objects that the metadata does not know.
    Topics that are kept as tables: that the table has its ledger and its files.
    Without --repair it only reads, and can run beside brokers and maintenance. Exit status 0 if all is well, 3 if a
    bucket did not answer and nothing else is wrong, else 1.

    Findings that can be repaired are shown as a plan, all others with advice. --repair carries out the plan: it
    deletes unknown objects that are older than any upload can be, after checking each again, and aborts abandoned
    multipart uploads. It repairs nothing while any object is damaged, missing or could not be checked.
    """
    with choice.open() as store:
        report = _checked(store, read_blocks)
        plan = _planned(store, report)
        if not as_json:
            _print_report(report, bucket_list_of(store.metadata.image).are_several)
            _print_plan(plan)
        repaired = _repaired(store, plan, is_answered) if is_repair and plan.repairs else None
    if as_json:
        print_json(_as_json(report, plan, repaired))
    elif repaired is not None:
        _print_repaired(plan, repaired)
    if not _is_well(report, repaired):
        raise Failure(NOT_ALL_CHECKED if report.is_only_incomplete else FAILED)


def _checked(store: Store, read_blocks: bool) -> CheckReport:
    with progress(remarks()) as bars:
        task = bars.add_task("checking objects", total=None)
        return check_store(
            store.context,
            read_blocks=read_blocks,
            tables=store.kind_settings.tables,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )


def _planned(store: Store, report: CheckReport) -> RepairPlan:
    limits = [
        value
        for setting, value in values_of(store.settings)
        if setting.name == "time_limit_ms" and isinstance(value, int)
    ]
    return plan_repair(
        report,
        store.metadata.image.objects,
        store.context.now_ms(),
        age_ms_min=max(COMPACTION_TIME_LIMIT_MS, *limits),
    )


def _repaired(store: Store, plan: RepairPlan, is_answered: bool) -> RepairReport:
    confirm(f"Repair: {plan.in_one_line}?", is_answered=is_answered)
    return repair(store.context, plan)


def _is_well(report: CheckReport, repaired: RepairReport | None) -> bool:
    """Returns whether there is no error and no warning, or every one has been repaired."""
    if repaired is None:
        return report.is_clean
    done = {each.key for each in repaired.done}
    return all(each.severity is Severity.NOTE or each.key in done for each in report.findings)


def _as_json(report: CheckReport, plan: RepairPlan, repaired: RepairReport | None) -> dict[str, object]:
    return {
        "clean": report.is_clean,
        "streams_checked": report.streams_checked,
        "objects_checked": report.objects_checked,
        "objects_not_checked": report.objects_not_checked,
        "blocks_checked": report.blocks_checked,
        "bytes_read": report.bytes_read,
        "findings": [_finding_as_json(finding) for finding in report.findings],
        "repair_plan": {
            "repairs": [_repair_as_json(each) for each in plan.repairs],
            "left": [{"key": each.finding.key, "text": each.finding.text, "advice": each.advice} for each in plan.left],
        },
    } | ({} if repaired is None else {"repaired": _repaired_as_json(repaired)})  # fmt: skip


def _finding_as_json(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity.name,
        "kind": finding.kind.name,
        "text": finding.text,
        "stream_id": finding.stream_id,
        "object_id": finding.object_id,
        "key": finding.key,
        "size_bytes": finding.size_bytes,
        "bucket_id": finding.bucket_id,
    }


def _repair_as_json(each: Repair) -> dict[str, object]:
    return {
        "action": each.action.name,
        "bucket_id": each.bucket_id,
        "object_id": each.object_id,
        "key": each.key,
        "size_bytes": each.size_bytes,
    }


def _repaired_as_json(report: RepairReport) -> list[dict[str, object]]:
    return [
        _repair_as_json(each.repair) | {"done": not each.why_not, "why_not": each.why_not}
        for each in report.results
    ]


def _print_report(report: CheckReport, names_buckets: bool) -> None:
    out = results()
    if report.findings:
        shown = table("severity", "kind", *((">bucket",) if names_buckets else ()), "finding")
        for finding, text in _rows(report.findings):
            bucket = "" if finding.bucket_id is None else str(finding.bucket_id)
            shown.add_row(
                finding.severity.name.lower(),
                finding.kind.name.lower().replace("_", " "),
                *((bucket,) if names_buckets else ()),
                text,
                style=_STYLES[finding.severity],
            )
        out.print(shown)
    looked_at = ", ".join(
        (
            counted(report.streams_checked, "stream"),
            counted(report.objects_checked, "object"),
            counted(report.blocks_checked, "block"),
            f"{size_words(report.bytes_read)} read",
        )
    )
    if report.is_only_incomplete:
        verdict = "[bold yellow]not everything could be checked[/]"
    else:
        verdict = "[green]clean[/]" if report.is_clean else "[bold red]something is wrong[/]"
    out.print(f"{verdict}: {looked_at}")
    if report.objects_not_checked:
        out.print(f"{counted(report.objects_not_checked, 'object')} not checked")


def _rows(findings: Sequence[Finding]) -> Iterator[tuple[Finding, str]]:
    """One row for each error and warning; more than NOTES_SHOWN_MAX notes of one kind and bucket share a row."""
    for _, alike in groupby(findings, key=lambda finding: finding.kind):
        group = list(alike)
        if group[0].severity is Severity.NOTE and len(group) > NOTES_SHOWN_MAX:
            yield from map(_in_one_row, _by_bucket(group))
        else:
            yield from ((finding, finding.text) for finding in group)


def _by_bucket(notes: Sequence[Finding]) -> Iterable[list[Finding]]:
    found: dict[int | None, list[Finding]] = {}
    for each in notes:
        found.setdefault(each.bucket_id, []).append(each)
    return found.values()


def _in_one_row(notes: Sequence[Finding]) -> tuple[Finding, str]:
    size_bytes = sum(each.size_bytes for each in notes)
    return notes[0], f"{counted(len(notes), 'time')}, {size_words(size_bytes)} in total (--json lists each)"


def _print_plan(plan: RepairPlan) -> None:
    """Prints the repairs, and the advice for other findings; nothing if there are none."""
    out = results()
    if plan.repairs:
        out.print(f"can be repaired (--repair): {plan.in_one_line}")
    for (kind, advice), count in _advice(plan).items():
        out.print(f"{kind}, {counted(count, 'time')}: {advice}", markup=False, soft_wrap=True)


def _advice(plan: RepairPlan) -> dict[tuple[str, str], int]:
    """(Kind of finding, advice) → number of findings, in the order of the findings."""
    counts: dict[tuple[str, str], int] = {}
    for each in plan.left:
        said = (each.finding.kind.name.lower().replace("_", " "), each.advice)
        counts[said] = counts.get(said, 0) + 1
    return counts


def _print_repaired(plan: RepairPlan, report: RepairReport) -> None:
    deleted = size_words(report.bytes_deleted)
    results().print(f"repaired: {len(report.done):,} of {len(plan.repairs):,}, {deleted} deleted")
    for line in unrepaired(report):
        remarks().print(f"not repaired: {line}", markup=False, soft_wrap=True)
