"""Plans, explanations and reports of runs as tables and lines of text."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, islice

from rich.console import Group, RenderableType
from rich.table import Table

from siltstone.carrying.pipeline.kind import WHOLE, PlannedUnit
from siltstone.carrying.pipeline.running import RunReport
from siltstone.cli.maintain.buckets import PARTITION, buckets_of
from siltstone.cli.output import table
from siltstone.cli.words import count_words, counted, seconds_words, size_words, time_words
from siltstone.foundation.text_tables import NOTHING
from siltstone.maintenance.overview import KindOverview, Overview, row_of
from siltstone.metadata.image import MetadataImage

ROWS_SHOWN_MAX = 60
"""Rows of one kind in a table; --json has all."""

ABBREVIATIONS = "SSO: stream set object, blocks of many streams; SO: stream object, of one stream"


def plan_shown(planned: Overview) -> RenderableType:
    """Shows the units of each kind, the objects that they make, and how many units are set aside. ``explanation_shown``
    has the reasons for all that is not planned."""
    parts: list[RenderableType] = []
    if any(each.units for each in planned.kinds):
        shown = table("kind", "unit", ">reads", ">writes", ">objects", "because")
        for each in planned.kinds:
            _add_units(shown, each)
        parts += [shown, "", _totals(planned), *filter(None, [planned.unusable_words])]
    else:
        held_up = [*filter(None, (planned.set_aside_words, planned.unusable_words))]
        parts += held_up or [f"{NOTHING} (siltstone maintain explain shows why)"]
    making = [unit for each in planned.kinds for unit in each.units if unit.outputs]
    if making and len(planned.kinds) == 1:
        parts += ["", _outputs_shown(making), ABBREVIATIONS]
    for each in planned.kinds:
        parts += [f"{each.kind}: no plan could be made: {each.trouble}"] if each.trouble else []
        parts += [_waiting_line(each)] if each.waiting else []
    return Group(*parts)


def _add_units(shown: Table, planned: KindOverview) -> None:
    for unit in islice(planned.units, ROWS_SHOWN_MAX):
        shown.add_row(*row_of(planned.kind, unit))
    if (more := len(planned.units) - ROWS_SHOWN_MAX) > 0:
        shown.add_row(planned.kind, "…", "", "", "", f"and {count_words(more)} more (--json has all)")


def _outputs_shown(units: Sequence[PlannedUnit]) -> Table:
    shown = table("makes", ">stream", ">start", ">end", ">bytes", ">from", ">task", "because")
    outputs = [output for unit in units for output in unit.outputs]
    for each in outputs[:ROWS_SHOWN_MAX]:
        is_one_task = each.first_task == each.last_task
        shown.add_row(
            each.makes,
            count_words(each.streams) + " str." if each.stream_id is None else str(each.stream_id),
            "" if each.start_offset is None else count_words(each.start_offset),
            "" if each.end_offset is None else count_words(each.end_offset),
            size_words(each.size_bytes),
            count_words(len(each.sources)),
            str(each.first_task) if is_one_task else f"{each.first_task}-{each.last_task}",
            each.reason,
        )
    # A unit of a large plan lists only the first of its outputs.
    if (more := sum(unit.objects_after for unit in units) - ROWS_SHOWN_MAX) > 0:
        listed = "all" if more + ROWS_SHOWN_MAX <= len(outputs) else f"the first {len(outputs):,}"
        shown.add_row("…", *[""] * 6, f"and {count_words(more)} more (--json has {listed})")
    return shown


def _totals(planned: Overview) -> str:
    units = [unit for each in planned.kinds for unit in each.units]
    more = [each.kind for each in planned.kinds if each.has_remaining]
    return "; ".join(
        filter(
            None,
            (
                f"{counted(len(units), 'unit')}, {size_words(sum(unit.bytes_read for unit in units))} to read, "
                f"{size_words(sum(unit.bytes_written for unit in units))} to write",
                f"another run will find more for {', '.join(more)}" if more else "",
            ),
        )
    )


def _waiting_line(planned: KindOverview) -> str:
    return (
        f"{planned.kind}: {counted(len(planned.waiting), 'unit')} set aside after failures "
        "(siltstone maintain status shows why; --force retries them now)"
    )


def explanation_shown(planned: Overview, image: MetadataImage | None = None) -> RenderableType:
    """Shows the reason for each topic and object. With ``image`` it also shows in which buckets the data of each topic
    or object are."""
    shown = table("kind", "what", *(("buckets",) if image else ()), "now", "because")
    for each in planned.kinds:
        rows = [(name, *_buckets(name, image), now, why) for name, now, why in explanation_rows(each)]
        for row in _shared_rows(rows):
            shown.add_row(each.kind, *row)
    return shown


def _buckets(name: str, image: MetadataImage | None) -> tuple[str, ...]:
    return (",".join(map(str, buckets_of(name, image))),) if image else ()


def _shared_rows(rows: list[tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
    """Partitions of a topic that follow each other and are alike share a row, ``topic-1 … topic-49``."""
    numbered = [(row, PARTITION.fullmatch(row[0])) for row in rows]

    def together(at: tuple[int, tuple[tuple[str, ...], re.Match[str] | None]]) -> object:
        place, (row, found) = at
        return (found[1], int(found[2]) - place, *row[1:]) if found else place

    for _, same in groupby(enumerate(numbered), together):
        (name, *others), *more = [row for _, (row, _) in same]
        yield (f"{name} … {more[-1][0]}" if more else name), *others


def explanation_rows(planned: KindOverview) -> list[tuple[str, str, str]]:
    rows = [(unit.name, "will be done", _with_detail(unit)) for unit in planned.units]
    rows += [
        (
            each.name,
            "waits",
            f"failed {counted(each.failures, 'time')}, next try {time_words(each.retry_at_ms)}: {each.reason}",
        )
        for each in planned.waiting
    ]
    rows += [
        (each.name, "left out" if each.is_failure else "stays", each.reason) for each in planned.unplanned
    ]
    if planned.trouble:
        rows.append((WHOLE, "no plan", planned.trouble))
    return rows or [(WHOLE, "stays", "there is nothing to do")]


def _with_detail(unit: PlannedUnit) -> str:
    detail = ", ".join(f"{name} {value}" for name, value in unit.detail.items())
    return f"{unit.reason} ({detail})" if detail else unit.reason


def report_lines(report: RunReport) -> list[str]:
    """One line for the run of the kind, then one line for each unit with its outcome."""
    lines = [f"{report.kind}: {report.in_one_line}"]
    lines += [f"  {each.name}: {each.outcome.value}: {each.text}" for each in report.units]
    if report.is_cancelled:
        left = ", ".join(report.postponed[:5]) + (" …" if len(report.postponed) > 5 else "")
        lines.append(f"  units listed as done are committed and stay{f'; not done: {left}' if left else ''}")
    return lines


def left_words(seconds: float | None) -> str:
    return "" if seconds is None else f"about {seconds_words(seconds)} left"
