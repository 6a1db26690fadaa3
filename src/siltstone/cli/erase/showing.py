"""What people see of an erasure: what it would cost, and its report."""

from collections.abc import Sequence

from siltstone.cli.output import facts, remarks, results, table
from siltstone.cli.words import cell, count_words, counted, size_words
from siltstone.foundation.quantity_words import duration_words
from siltstone.maintenance.erasure.kind import ErasureLook
from siltstone.maintenance.erasure.report import ErasureReport

OBJECTS_SHOWN_MAX = 20


def dry_run_document(looks: Sequence[ErasureLook]) -> dict[str, object]:
    return {
        "records": sum(sum(each.erased) for look in looks for each in look.holders),
        "objects": [
            {
                "object_id": each.source.object_id,
                "partition": look.stream.partition,
                "size_bytes": each.source.size_bytes,
                "records": sum(each.erased),
                "is_stream_set_object": each.source.object_id in look.stream.sets,
            }
            for look in looks
            for each in look.holders
        ],
        "objects_looked_at": sum(look.objects for look in looks),
        "bytes_looked_at": sum(look.bytes_read for look in looks),
        "not_readable": [trouble for look in looks for trouble in look.troubles],
    }


def print_dry_run(looks: Sequence[ErasureLook], grace_period_ms: int) -> None:
    out = results()
    holders = [(look, each) for look in looks for each in look.holders]
    if holders:
        drawn = table("object", "kind", ">partition", ">records", ">size")
        for look, each in holders[:OBJECTS_SHOWN_MAX]:
            is_set = each.source.object_id in look.stream.sets
            drawn.add_row(
                str(each.source.object_id),
                "SSO" if is_set else "SO",
                str(look.stream.partition),
                count_words(sum(each.erased)),
                size_words(each.source.size_bytes),
            )
        out.print(drawn)
        if (more := len(holders) - OBJECTS_SHOWN_MAX) > 0:
            out.print(f"and {counted(more, 'more object')} (--json has all)")
    records = sum(sum(each.erased) for _, each in holders)
    size_bytes = sum({each.source.object_id: each.source.size_bytes for _, each in holders}.values())
    looked_at, read = sum(look.objects for look in looks), sum(look.bytes_read for look in looks)
    out.print(
        f"{counted(records, 'record')} in {counted(len(holders), 'object')} of {count_words(looked_at)} looked at "
        f"({size_words(read)}): an erasure reads these again, writes {size_words(size_bytes)}, and the replaced objects"
        f" are deleted {duration_words(grace_period_ms)} later.",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    out.print("Nothing was changed. Records that are in no object yet were not looked at.")
    for trouble in [trouble for look in looks for trouble in look.troubles]:
        remarks().print(trouble, style="yellow", markup=False, soft_wrap=True)


def print_report(report: ErasureReport) -> None:
    out = results()
    if report.objects:
        drawn = table("object", ">partition", ">records", ">size", "replaced (UTC)", "deleted (UTC)")
        for each in report.objects[:OBJECTS_SHOWN_MAX]:
            drawn.add_row(
                str(each.object_id),
                str(each.partition),
                count_words(each.records),
                size_words(each.size_bytes),
                _time(each.replaced),
                _time(each.deleted),
            )
        out.print(drawn)
        if (more := len(report.objects) - OBJECTS_SHOWN_MAX) > 0:
            out.print(f"and {counted(more, 'more object')} (--json has all)")
    out.print(
        facts(
            erasure=report.erasure,
            topic=cell(report.topic),
            keys=f"{counted(len(report.keys), 'key')}, named by HMAC-SHA-256",
            state=state_words(report),
            verified=_verified(report),
            table=table_words(report),
        )
    )
    if report.state == "verified":
        remarks().print(
            f"siltstone erasures report {report.erasure} shows when the buckets lack them, too", style="dim"
        )


def state_words(report: ErasureReport) -> str:
    if report.state != "verified":
        return report.state
    left = f"verified; {counted(report.in_buckets, 'replaced object')} not deleted from the buckets yet"
    return f"{left}, and {counted(report.leftovers, 'object')} out of use" if report.leftovers else left


def table_words(report: ErasureReport) -> str | None:
    of = report.table
    if of is None:
        return None
    found = f"{cell(of.table)}: {counted(of.rows, 'row')} in {counted(of.files, 'file')}"
    if of.held_by:
        return (
            f"{found}; older states are held by {', '.join(of.held_by)}: remove these, and resume the erasure"
        )
    return f"{found}; {'older states are gone' if of.deleted else 'older states are still there'}"


def _verified(report: ErasureReport) -> str:
    if report.verified is None:
        return "not yet"
    looked_at = (
        f"{counted(report.objects_looked_at, 'object')} with {counted(report.records_looked_at, 'record')}"
    )
    return f"{_time(report.verified)}, by reading {looked_at}: none is of the keys"


def _time(text: str | None) -> str:
    return "" if text is None else text.replace("T", " ")[:19]
