"""``siltstone check``: the fsck."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from siltstone.cli.failures import Failure
from siltstone.cli.output import print_json, progress, remarks, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import counted, size_words
from siltstone.maintenance.checking.check import check as check_store
from siltstone.maintenance.checking.findings import CheckReport, Finding, Severity

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}

NOTES_SHOWN_MAX = 3
"""Of one kind: after a compaction hundreds of objects await deletion, and what is wrong must not drown in them."""


@click.command()
@click.option(
    "--full/--indexes-only", "read_blocks", default=True, help="Read every byte (the default), or only the indexes."
)  # fmt: skip
@json_option
@store_options
def check(choice: StoreChoice, read_blocks: bool, as_json: bool) -> None:
    """Verify that everything the metadata says is so.

    Every committed object exists, its checksums hold and it covers what it should; every offset of every stream is
    covered exactly once; objects that nobody names are listed. Only reads, and may run beside a node and beside
    compaction. Exit status 0 when all is well, 1 when it is not.
    """
    with choice.open() as store, progress(remarks()) as bars:
        task = bars.add_task("checking objects", total=None)
        report = check_store(
            store.context,
            read_blocks=read_blocks,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
    if as_json:
        print_json(_as_json(report))
    else:
        _print_report(report)
    if not report.is_clean:
        raise Failure


def _as_json(report: CheckReport) -> dict[str, object]:
    return {
        "clean": report.is_clean,
        "streams_checked": report.streams_checked,
        "objects_checked": report.objects_checked,
        "blocks_checked": report.blocks_checked,
        "bytes_read": report.bytes_read,
        "findings": [_finding_as_json(finding) for finding in report.findings],
    }


def _finding_as_json(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity.name,
        "kind": finding.kind.name,
        "text": finding.text,
        "stream_id": finding.stream_id,
        "object_id": finding.object_id,
        "key": finding.key,
        "size_bytes": finding.size_bytes,
    }


def _print_report(report: CheckReport) -> None:
    out = results()
    if report.findings:
        shown = table("severity", "kind", "what")
        for finding, text in _rows(report.findings):
            shown.add_row(
                finding.severity.name.lower(),
                finding.kind.name.lower().replace("_", " "),
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
    verdict = "[green]clean[/]" if report.is_clean else "[bold red]something is wrong[/]"
    out.print(f"{verdict}: {looked_at}")


def _rows(findings: Sequence[Finding]) -> Iterator[tuple[Finding, str]]:
    """Errors and warnings one by one, many notes of a kind in one row."""
    for _, alike in groupby(findings, key=lambda finding: finding.kind):
        group = list(alike)
        if group[0].severity is Severity.NOTE and len(group) > NOTES_SHOWN_MAX:
            size_bytes = sum(finding.size_bytes for finding in group)
            yield group[0], f"{len(group):,} times, {size_words(size_bytes)} in all (--json lists each)"
        else:
            yield from ((finding, finding.text) for finding in group)
