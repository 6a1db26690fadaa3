"""What became of one stream, for people and for what counts after them."""

from siltstone.foundation.quantity_words import count_words, counted, size_words
from siltstone.maintenance.key_compaction.planning.stream_plan import StreamPlan
from siltstone.maintenance.key_compaction.unit import KeyCompactionResult
from siltstone.maintenance.pipeline.kind import Outcome, UnitReport


def done(plan: StreamPlan, result: KeyCompactionResult) -> UnitReport:
    is_unchanged = result.is_unchanged
    written = sum(each.size_bytes for each in result.objects)
    return UnitReport(
        name=plan.name,
        outcome=Outcome.DONE,
        text=_text(plan, result),
        bytes_read=result.bytes_read,
        bytes_written=result.bytes_written,
        bytes_freed=0 if is_unchanged else max(0, plan.source_bytes - written),
        objects_before=len(plan.sources),
        objects_after=len(plan.sources) if is_unchanged else len(result.objects),
        records_removed=result.records_read - result.records_kept,
        peak_memory_bytes=result.peak_memory_bytes,
    )


def not_needed(plan: StreamPlan, reason: str) -> UnitReport:
    return UnitReport(name=plan.name, outcome=Outcome.NOT_NEEDED, text=reason)


def failed(plan: StreamPlan, reason: str) -> UnitReport:
    return UnitReport(name=plan.name, outcome=Outcome.FAILED, text=reason)


def _text(plan: StreamPlan, result: KeyCompactionResult) -> str:
    facts = [
        f"clean up to offset {count_words(result.cleaned_offset)}",
        f"{count_words(result.records_kept)} of {counted(result.records_read, 'record')} left",
        "nothing could be removed" if result.is_unchanged else _sizes(plan, result),
        f"{counted(result.tombstones_kept, 'tombstone')} kept" if result.tombstones_kept else "",
        f"{counted(result.null_keys, 'record')} without key removed" if result.null_keys else "",
        f"{counted(result.batches_grown, 'batch', 'batches')} larger than before"
        if result.batches_grown
        else "",
        f"the map was full with {counted(result.keys_mapped, 'key')}: the next run goes on"
        if result.map_was_full
        else "",
    ]
    return "; ".join(filter(None, facts))


def _sizes(plan: StreamPlan, result: KeyCompactionResult) -> str:
    written = sum(each.size_bytes for each in result.objects)
    return f"{size_words(plan.source_bytes)} became {size_words(written)}"
