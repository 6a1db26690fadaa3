"""Image → which topics are due for an export, and the offsets of a round. Pure.

A topic is due when enough bytes wait or when they have waited long enough; the progress in the metadata says how far
its table is. The round itself begins where the table's own ledger ends.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from siltstone.carrying.pipeline.kind import PlannedUnit, Scope, Unplanned
from siltstone.foundation.quantity_words import counted, seconds_words, size_words
from siltstone.metadata.entities import StreamMetadata, TopicMetadata
from siltstone.metadata.image import ImageView
from siltstone.model.audit import AUDIT_TOPIC
from siltstone.model.limits import GIB, MINUTE_MS
from siltstone.offline.erasures import erasures_of, is_deletion_due, is_table_pending
from siltstone.offline.topic_streams import PartitionName, topic_defaults, transactional_from
from siltstone.tables.failures import TableAhead
from siltstone.tables.ledger import Gap, Ledger
from siltstone.tables.progress import DamagedTableProgress, TableProgress, progress_of
from siltstone.topic_configs.table import stored_topic_config
from siltstone.topic_configs.table_export import TableConfig

ROUND_BYTES = 1 * GIB
"""The most bytes of one round, as stored. A crash makes at most one round be repeated, and rows can be read only after
the commit of their round."""

EXPORT_SET_ASIDE_MS_MAX = 10 * MINUTE_MS
"""A topic whose export failed is tried again after this time at the latest. Most causes are removed by a person, who
then waits for the next try."""

Offsets = dict[int, int]


Undecided = Mapping[PartitionName, int]
"""The offsets from which on partitions have transactions that are not decided."""

NOTHING_UNDECIDED: Undecided = {}


class TopicExport(msgspec.Struct, frozen=True):
    """A topic that is kept as a table, and its configurations for that."""

    topic: TopicMetadata
    config: TableConfig

    @property
    def table(self) -> str:
        return self.config.name_for(self.topic.name)

    @property
    def dead_letter_table(self) -> str:
        return f"{self.table}__errors"

    @property
    def has_truncates(self) -> bool:
        """Whether a change event may remove all rows as long as the topic has one partition. It has no key, so it is in
        any partition, and a sequence does not order it."""
        return bool(self.config.change) and not self.config.sequence


class ExportLag(msgspec.Struct, frozen=True):
    """The records of a topic that are in objects and not yet in its table. ``partitions`` counts the partitions that
    have such records."""

    offsets: int
    size_bytes: int
    partitions: int


def exports(image: ImageView, names: Iterable[str] | None = None) -> dict[str, TopicExport]:
    """Returns the topics that are kept as tables, by name. With ``names``, topics of other names are left out."""
    defaults = topic_defaults(image)
    found: dict[str, TopicExport] = {}
    topics: Iterable[TopicMetadata] = image.topics.values()
    if names is not None:
        topics = [image.topics[image.topic_ids[each]] for each in names if each in image.topic_ids]
    for topic in sorted(topics, key=lambda each: each.name):
        config = stored_topic_config(topic.configs, defaults).table
        if config.table_format and (not topic.is_internal or topic.name == AUDIT_TOPIC):
            found[topic.name] = TopicExport(topic, config)
    return found


def topics_with_transactions(image: ImageView, scope: Scope) -> list[TopicMetadata]:
    """Returns the topics in the scope that have something to export in which transactions may be."""
    return [
        export.topic
        for export in exports(image).values()
        if scope.includes(export.topic.name) and _may_have_transactions(image, export)
    ]


def _may_have_transactions(image: ImageView, export: TopicExport) -> bool:
    progress = progress_in(image, export)
    for number, stream in _streams(image, export.topic):
        first = transactional_from(image, export.topic.topic_id, number)
        exported = progress.offsets.get(number, 0) if progress else 0
        if first is not None and max(first, exported) < stream.end_offset:
            return True
    return False


def progress_in(image: ImageView, export: TopicExport) -> TableProgress | None:
    """Returns how far the topic was exported to the table that it is configured for. None if nothing was exported to
    that table, or if the progress cannot be read; the next round writes it again."""
    try:
        progress = progress_of(image, export.topic.topic_id)
    except DamagedTableProgress:
        return None
    is_of_it = progress is not None and progress.is_of(export.table, export.config.table_format)
    return progress if is_of_it else None


def conflict(export: TopicExport, all_exports: Mapping[str, TopicExport]) -> str:
    """Says why a topic cannot be exported as it is configured; empty when it can."""
    own = {export.table, export.dead_letter_table}
    for other in all_exports.values():
        if other.topic.name != export.topic.name and own & {other.table, other.dead_letter_table}:
            return f"topic {other.topic.name} has the table {other.table}, too: set siltstone.table.name of one of them"
    return export.config.conflict


def lag_of(
    image: ImageView,
    topic: TopicMetadata,
    progress: TableProgress | None,
    undecided: Undecided = NOTHING_UNDECIDED,
) -> ExportLag:
    offsets = size_bytes = partitions = 0
    for number, stream in _streams(image, topic):
        start = max((progress.offsets.get(number, 0) if progress else 0), stream.start_offset)
        end = exportable_end(topic, number, stream, undecided)
        offsets += max(0, end - start)
        size_bytes += bytes_of(stream, start, end)
        partitions += end > start
    return ExportLag(offsets, size_bytes, partitions)


def exportable_end(topic: TopicMetadata, number: int, stream: StreamMetadata, undecided: Undecided) -> int:
    """Returns the end of the offsets that a table takes: a record of a transaction that is not decided may not come
    into it, and all that follows waits, so that rows come in the order of the offsets."""
    return min(undecided.get((topic.name, number), stream.end_offset), stream.end_offset)


def transactions_in(image: ImageView, topic: TopicMetadata, undecided: Undecided) -> str:
    """Says which partition waits for the end of a transaction; empty if none does."""
    for number, stream in _streams(image, topic):
        first = exportable_end(topic, number, stream, undecided)
        if first < stream.end_offset:
            return (
                f"{topic.name}-{number} has a transaction that is open since offset {first}; its records, and those "
                "behind them, come into the table when it has ended (siltstone transactions find-hanging)"
            )
    return ""


def _streams(image: ImageView, topic: TopicMetadata) -> Iterator[tuple[int, StreamMetadata]]:
    for number, partition in enumerate(topic.partitions):
        yield number, image.streams[partition.data_stream_id]


def bytes_of(stream: StreamMetadata, start: int, end: int) -> int:
    """Returns the bytes in objects of the offsets [start, end). A range that reaches beyond them counts in proportion
    to its offsets."""
    found = 0
    for held in stream.ranges:
        inside = min(held.end_offset, end) - max(held.start_offset, start)
        if inside > 0:
            found += held.size_bytes * inside // (held.end_offset - held.start_offset)
    return found


class ExportsPlanned(msgspec.Struct, frozen=True):
    units: tuple[PlannedUnit, ...]
    unplanned: tuple[Unplanned, ...]


def plan_exports(
    image: ImageView, scope: Scope, now_ms: int, undecided: Undecided = NOTHING_UNDECIDED
) -> ExportsPlanned:
    """Plans all topics in the scope; the one with most bytes to export comes first. ``undecided``: of their partitions
    that have transactions (``topics_with_transactions``)."""
    units: list[PlannedUnit] = []
    unplanned: list[Unplanned] = []
    found = exports(image)
    for export in found.values():
        if scope.includes(export.topic.name):
            planned = _planned(image, export, found, scope, now_ms, undecided)
            (units if isinstance(planned, PlannedUnit) else unplanned).append(planned)  # type: ignore[arg-type]
    others = sorted((scope.topics or frozenset()) - found.keys())
    unplanned += [
        Unplanned(name, "siltstone.table.format is empty: it is not kept as a table") for name in others
    ]
    units.sort(key=lambda unit: (-unit.bytes_read, unit.name))
    return ExportsPlanned(tuple(units), tuple(unplanned))


def plan_erasures(
    image: ImageView, scope: Scope, now_ms: int, grace_period_ms: int
) -> dict[str, PlannedUnit]:
    """Plans what erasures need in tables now: a unit for each topic, by its name. It is not the unit of the export, so
    an erasure that fails keeps no export back."""
    reasons: dict[str, str] = {}
    for erasure in erasures_of(image):
        if is_table_pending(image, erasure):
            reasons[erasure.topic_id] = "rows of erased keys are to leave table {}"
        elif is_deletion_due(image, erasure, now_ms, grace_period_ms):
            reasons.setdefault(
                erasure.topic_id, "files with rows of erased keys are to be deleted from table {}"
            )
    return {
        name: PlannedUnit(
            name=f"erased rows of {name}",
            topic=name,
            reason=reasons[export.topic.topic_id].format(export.table),
        )
        for name, export in exports(image).items()
        if export.topic.topic_id in reasons and scope.includes(name)
    }


def _planned(
    image: ImageView,
    export: TopicExport,
    found: Mapping[str, TopicExport],
    scope: Scope,
    now_ms: int,
    undecided: Undecided,
) -> PlannedUnit | Unplanned:
    name = export.topic.name
    if reason := conflict(export, found):
        return Unplanned(name, reason)
    progress = progress_in(image, export)
    lag = lag_of(image, export.topic, progress, undecided)
    if not lag.offsets:
        return Unplanned(name, transactions_in(image, export.topic, undecided) or _why_none(export, progress))
    reason, is_due = _why(export.config, lag, progress, now_ms)
    if not (is_due or scope.is_forced):
        return Unplanned(name, reason)
    return PlannedUnit(
        name=name,
        topic=name,
        reason=reason if is_due else f"forced: {reason}",
        bytes_read=min(lag.size_bytes, ROUND_BYTES),
        bytes_written=min(lag.size_bytes, ROUND_BYTES),
        detail={"table": export.table, "format": export.config.table_format},
        set_aside_ms_max=EXPORT_SET_ASIDE_MS_MAX,
    )


def _why_none(export: TopicExport, progress: TableProgress | None) -> str:
    if progress is None:
        return (
            f"none of its records are in objects yet, so there is no table {export.table}; brokers upload within a "
            "minute, or at once with siltstone maintain run --flush"
        )
    return f"all that is in objects is in table {export.table}"


def _why(
    config: TableConfig, lag: ExportLag, progress: TableProgress | None, now_ms: int
) -> tuple[str, bool]:
    where = f"{counted(lag.offsets, 'offset')} in {counted(lag.partitions, 'partition')}"
    waiting = f"{where}, {size_words(lag.size_bytes)}"
    if progress is None:
        return f"{waiting}: the first export", True
    if lag.size_bytes >= config.bytes_min:
        return f"{waiting}: at least siltstone.table.bytes.min ({size_words(config.bytes_min)})", True
    age_ms = max(0, now_ms - progress.exported_ms)
    interval = f"siltstone.table.interval.ms ({seconds_words(config.interval_ms / 1000)})"
    if age_ms >= config.interval_ms:
        return f"{waiting}, {seconds_words(age_ms / 1000)} after the last export: at least {interval}", True
    return (
        f"{waiting}, {seconds_words(age_ms / 1000)} after the last export, which is less than {interval}",
        False,
    )


# -- one round ---------------------------------------------------------------------------------------------------


class RoundRanges(msgspec.Struct, frozen=True):
    """The offsets of a round, [start, end) by partition. ``gaps`` were removed before they were exported.
    ``has_remaining``: more of the topic is in objects."""

    starts: Offsets
    ends: Offsets
    gaps: tuple[Gap, ...]
    has_remaining: bool

    @property
    def is_empty(self) -> bool:
        return not self.gaps and all(self.starts[number] == end for number, end in self.ends.items())


def round_ranges(
    image: ImageView,
    export: TopicExport,
    ledger: Ledger,
    verdict: Ledger | None,
    bytes_max: int,
    undecided: Undecided = NOTHING_UNDECIDED,
) -> RoundRanges:
    """Returns the offsets of the next round, which begins where the table's ledger ends. ``verdict`` is the ledger of
    the dead letters if it is ahead of the table's: then the round ends where the dead letters' ledger ends. Raises
    TableAhead."""
    starts: Offsets = {}
    ends: Offsets = {}
    gaps: list[Gap] = []
    has_remaining = False
    streams = dict(_streams(image, export.topic))
    limits = {
        number: exportable_end(export.topic, number, each, undecided) for number, each in streams.items()
    }
    waiting = [number for number, end in limits.items() if end > (ledger.offset(number) or 0)]
    for number, stream in streams.items():
        exported = ledger.offset(number)
        if exported is not None and exported > stream.end_offset:
            raise TableAhead(export.table, f"{export.topic.name}-{number}", exported, stream.end_offset)
        start = stream.start_offset if exported is None else max(exported, stream.start_offset)
        end = max(start, min(limits[number], _end(stream, start, bytes_max // max(1, len(waiting)))))
        if verdict is not None:
            end = max(start, verdict.offset(number) or 0)
            if end > stream.end_offset:
                raise TableAhead(
                    export.dead_letter_table, f"{export.topic.name}-{number}", end, stream.end_offset
                )
        if exported is not None and start > exported:
            gaps.append(Gap(number, exported, start))
        starts[number], ends[number] = start, end
        has_remaining |= end < limits[number]
    return RoundRanges(starts, ends, tuple(gaps), has_remaining)


def _end(stream: StreamMetadata, start: int, bytes_max: int) -> int:
    """Returns the end of the offsets from ``start`` on that have about ``bytes_max`` bytes; at least one offset."""
    left = bytes_max
    for held in stream.ranges:
        if held.end_offset <= start:
            continue
        first = max(held.start_offset, start)
        offsets = held.end_offset - held.start_offset
        size_bytes = held.size_bytes * (held.end_offset - first) // offsets
        if size_bytes > left:
            fitting = left * offsets // held.size_bytes
            return max(start + 1, first + fitting)
        left -= size_bytes
    return stream.end_offset


def is_ahead(dead_letters: Ledger, ledger: Ledger) -> bool:
    """Returns whether dead letters were committed in a round that the table has not seen."""
    return any(end > (ledger.offset(number) or 0) for number, end in dead_letters.offsets.items())
