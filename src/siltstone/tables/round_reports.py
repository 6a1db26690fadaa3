"""Says what a round has done with a topic: rows, files, dead letters, new columns, and what was rescued."""

from collections.abc import Iterable, Sequence

import msgspec

from siltstone.carrying.pipeline.kind import Outcome, UnitReport
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.model.errors import SiltstoneError
from siltstone.scanning.scan import ScanPlan
from siltstone.tables.formats.port import LoadedTable, Replacement
from siltstone.tables.ledger import Gap
from siltstone.tables.planning import TopicExport
from siltstone.tables.task_input import ExportResult, ReasonCount, Truncate
from siltstone.topic_configs.table_export import RESCUED


class WrittenFiles(msgspec.Struct, frozen=True):
    """The files that the tasks of a round have written for the state ``table``. ``ends`` and ``gaps`` belong to the
    scan that was really planned."""

    table: LoadedTable
    dead_letters: LoadedTable | None
    token: str
    plan: ScanPlan | None
    ends: dict[int, int]
    gaps: tuple[Gap, ...]
    results: tuple[ExportResult, ...] = ()

    @property
    def truncates(self) -> tuple[Truncate, ...]:
        """What removes all rows before it, in the order of the offsets."""
        return tuple(
            sorted((one for each in self.results for one in each.truncates), key=lambda one: one.offset)
        )

    def total(self, name: str) -> int:
        return sum(getattr(each, name) for each in self.results)


def done(
    export: TopicExport,
    table: LoadedTable,
    written: WrittenFiles,
    replacement: Replacement | None,
    *,
    news: Sequence[str],
    has_remaining: bool,
    peak_memory_bytes: int,
) -> UnitReport:
    """Returns the report of a round that was committed to ``table``. ``news`` says which columns are new."""
    files = sum(len(each.files) for each in written.results)
    replaced = replacement or Replacement((), (), keeps_rows=True)
    bytes_written = written.total("bytes_written") + sum(each.size_bytes for each in replaced.added)
    bad, lost = written.total("bad"), lost_offsets(written.gaps)
    rows = written.total("records") - bad
    what = "dropped" if export.config.errors == "drop" else "in its dead letters"
    appended = f"{counted(rows, 'row')} in {counted(files, 'file')} appended to table {table.name}"
    if export.config.is_upsert:
        merged = f"{counted(rows, 'record')} merged into table {table.name}"
        appended = f"{merged}, which has {counted(table.rows, 'row')}"
    elif replaced.removed:
        appended += f"; {counted(len(replaced.removed), 'small file')} joined to {len(replaced.added)}"
    facts = [
        appended,
        f"{counted(len(written.truncates), 'truncate')} removed all rows before" if written.truncates else "",
        f"{counted(bad, 'record')} could not be decoded, {what}" if bad else "",
        f"{counted(lost, 'offset')} had been removed before the export" if lost else "",
        *news,
        _rescued_words(written.results),
    ]
    return UnitReport(
        name=export.topic.name,
        outcome=Outcome.DONE,
        text="; ".join(filter(None, facts)),
        bytes_read=written.plan.size_bytes if written.plan else 0,
        bytes_written=bytes_written,
        peak_memory_bytes=peak_memory_bytes,
        has_remaining=has_remaining,
        detail={"table": table.name, "written": size_words(bytes_written)},
    )


def replayed(
    topic: str,
    table: str,
    written: WrittenFiles,
    size_bytes: int,
    *,
    is_dry: bool,
    has_remaining: bool,
) -> UnitReport:
    """Returns the report of dead letters that were tried again, with a line for each reason that they had."""
    counts: dict[str, ReasonCount] = {}
    for each in written.results:
        for reason, count in each.replayed.items():
            before = counts.get(reason, ReasonCount())
            counts[reason] = ReasonCount(
                before.fit + count.fit, before.unfit + count.unfit, before.example or count.example
            )
    fit, unfit = sum(each.fit for each in counts.values()), sum(each.unfit for each in counts.values())
    moved = "fit table" if is_dry else "moved to table"
    text = f"{counted(fit, 'dead letter')} {moved} {table}, {counted(unfit, 'dead letter')} stay"
    if has_remaining:
        text += "; there are more: run it again"
    lines = sorted(counts.items(), key=lambda each: (-each[1].fit - each[1].unfit, each[0]))
    return UnitReport(
        name=topic,
        outcome=Outcome.DONE,
        text=text,
        bytes_read=size_bytes,
        bytes_written=written.total("bytes_written"),
        has_remaining=False,
        detail={reason: _count_words(count) for reason, count in lines},
    )


def _count_words(count: ReasonCount) -> str:
    stay = f", {counted(count.unfit, 'dead letter')} not: {count.example}" if count.unfit else ""
    return f"{counted(count.fit, 'dead letter')} can be decoded now{stay}"


def _rescued_words(results: Iterable[ExportResult]) -> str:
    rescued = [each for each in results if each.rescued]
    if not rescued:
        return ""
    rows = counted(sum(each.rescued for each in rescued), "row")
    return (
        f"{rows} with something in {RESCUED} that no column could take, such as {rescued[0].rescued_example}"
    )


def lost_offsets(gaps: Iterable[Gap]) -> int:
    return sum(each.end_offset - each.start_offset for each in gaps)


def failed(topic: str, failure: SiltstoneError) -> UnitReport:
    return UnitReport(name=topic, outcome=Outcome.FAILED, text=f"{type(failure).__name__}: {failure}")


def not_needed(topic: str, text: str) -> UnitReport:
    return UnitReport(name=topic, outcome=Outcome.NOT_NEEDED, text=text)
