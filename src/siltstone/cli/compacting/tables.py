"""A compaction's plan and report, for people and for scripts."""

from collections import Counter
from itertools import islice

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from siltstone.cli.output import facts, table
from siltstone.cli.words import count_words, counted, ratio_words, seconds_words, size_words
from siltstone.maintenance.planning.plan import CompactionPlan
from siltstone.maintenance.planning.rows import OutputRow, output_rows
from siltstone.maintenance.planning.sources import LeftOut
from siltstone.maintenance.report import CompactionReport
from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectKind, ObjectState

ABBREVIATIONS = "SSO: stream set object, blocks of many streams; SO: stream object, of one stream"

ROWS_SHOWN_MAX = 60
"""A plan may have ten thousand outputs; --json has them all."""


def plan_shown(plan: CompactionPlan) -> RenderableType:
    parts: list[RenderableType] = []
    if not plan.is_empty:
        parts += [_outputs_table(plan), Text(ABBREVIATIONS, style="dim"), "", _plan_facts(plan), ""]
    if plan.left_out:
        parts += [_left_out_table(plan.left_out), ""]
    return Group(*parts)


def nothing_shown(plan: CompactionPlan, image: MetadataImage) -> str:
    """With the reason: many small objects and nothing to do look like a failure."""
    kinds = Counter(held.kind for held in image.objects.values() if held.state is ObjectState.COMMITTED)
    sets, own = kinds[ObjectKind.STREAM_SET_OBJECT], kinds[ObjectKind.STREAM_OBJECT]
    if plan.left_out:
        return "Nothing to compact."
    if not kinds:
        return "Nothing to compact: there are no objects."
    if not sets:
        return f"Nothing to compact: no stream set object, {counted(own, 'stream object')}."
    return f"Nothing to compact: of {counted(sets, 'stream set object')} no two hold the same stream."


def _outputs_table(plan: CompactionPlan) -> Table:
    shown = table("makes", ">stream", ">start", ">end", ">bytes", ">from", ">task", "because")
    for row in islice(output_rows(plan), ROWS_SHOWN_MAX):
        shown.add_row(*_output_cells(row))
    if plan.object_count > ROWS_SHOWN_MAX:
        shown.add_row("…", *[""] * 6, f"and {plan.object_count - ROWS_SHOWN_MAX:,} more (--json has all)")
    return shown


def _output_cells(row: OutputRow) -> tuple[str, ...]:
    return (
        row.kind.label,
        count_words(row.streams) + " str." if row.stream_id is None else str(row.stream_id),
        "" if row.start_offset is None else count_words(row.start_offset),
        "" if row.end_offset is None else count_words(row.end_offset),
        size_words(row.size_bytes),
        count_words(len(row.sources)),
        _task_numbers(row),
        row.reason,
    )


def _task_numbers(row: OutputRow) -> str:
    if row.first_iteration == row.last_iteration:
        return str(row.first_iteration)
    return f"{row.first_iteration}-{row.last_iteration}"


def _plan_facts(plan: CompactionPlan) -> Table:
    entries_before = sum(len(source.index) for source in plan.compacted_sources)
    made = counted(plan.object_count, "object")
    return facts(
        replaces=f"{counted(len(plan.compacted_sources), 'stream set object')} by {made}",
        moves=f"{size_words(plan.live_bytes)} in {counted(len(plan.bounds), 'task')} "
        f"of at most {size_words(plan.settings.memory_bytes)}",
        index_entries=f"{count_words(entries_before)} become {count_words(plan.index_entries_after)}",
        then="another round has work" if plan.has_remaining else None,
    )


def _left_out_table(left_out: tuple[LeftOut, ...]) -> Table:
    shown = table(">object", "stays as it is, because")
    for each in left_out[:ROWS_SHOWN_MAX]:
        shown.add_row(str(each.object_id), each.reason)
    if len(left_out) > ROWS_SHOWN_MAX:
        shown.add_row("…", f"and {len(left_out) - ROWS_SHOWN_MAX:,} more")
    return shown


def report_shown(report: CompactionReport) -> RenderableType:
    shown = table("", ">before", ">after", ">fewer")
    for name, before, after in (
        ("objects", report.objects_before, report.objects_after),
        ("index entries", report.index_entries_before, report.index_entries_after),
    ):
        shown.add_row(name, count_words(before), count_words(after), ratio_words(before, after))
    shown.add_row("bytes", size_words(report.bytes_before), size_words(report.bytes_after), "")
    return Group(shown, "", report_facts(report))


def report_facts(report: CompactionReport) -> Table:
    return facts(
        read=f"{size_words(report.bytes_read)} in {counted(report.read_requests, 'request')}",
        written=f"{size_words(report.bytes_written)} in {counted(report.write_requests, 'request')}",
        took=f"{seconds_words(report.seconds)}, {counted(report.iterations, 'task')}",
        peak_memory=f"{size_words(report.peak_memory_bytes)} (the largest process that ran a task)",
        then="another round has work: run it again" if report.has_remaining else None,
    )


def plan_json(plan: CompactionPlan) -> dict[str, object]:
    return {
        "compacted": plan.compacted_ids,
        "live_bytes": plan.live_bytes,
        "iterations": len(plan.bounds),
        "index_entries_after": 0 if plan.is_empty else plan.index_entries_after,
        "has_remaining": plan.has_remaining,
        "outputs": [] if plan.is_empty else [_row_json(row) for row in output_rows(plan)],
        "left_out": plan.left_out,
    }


def _row_json(row: OutputRow) -> dict[str, object]:
    return msgspec.structs.asdict(row) | {"kind": row.kind.label}
