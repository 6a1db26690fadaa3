"""The table ``log``: the entries that the metadata log still has, a row for each record. Pure.

No secret is shown: of a password the name, the mechanism and the rounds, of a key of the metadata its value
only if all values of that kind are harmless. A key of a kind that is not listed shows how many bytes its value has.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from siltstone.foundation.credentials import without_credentials
from siltstone.metadata.history import UNKNOWN_TIME_MS, known_time_ms
from siltstone.metadata.records import KeySet, Record, ScramCredentialSet
from siltstone.metadata_tables.columns import MetadataTable, MetadataType, computed, field, time, whole
from siltstone.metadata_tables.moment import Moment

LOG_ROWS_MAX = 1_000
"""Rows of a batch: the record of a large compaction may have a megabyte of fields."""

ITEMS_MAX = 1_000
"""A longer list of a record is cut: nobody reads it in a table, and ``object_ranges`` has what it says."""

SHOWN_KEYS = (
    "store/",
    "kafka/cluster-id",
    "topic-defaults",
    "transactional/",
    "group-progress/",
    "table-progress/",
    "table-schemas/",
    "copies-listed/",
    "balance",
    "feature/",
    "node-feature/",
    "node-program/",
    "lost-log/",
    "unreachable-from/",
)
"""The beginnings of keys whose values are texts without a secret."""


class LogRow(msgspec.Struct, frozen=True):
    """``position``: the number of the record in its entry. ``time_ms``: the known time of the entry."""

    version: int
    position: int
    time_ms: int
    append_id: str
    record: Record

    @property
    def kind(self) -> str:
        return type(self.record).__name__


def log_rows(moment: Moment, topic: str | None = None) -> Iterator[LogRow]:
    """Yields the records in the order of the log; of one topic the records that name it, or one of its streams."""
    known_ms = UNKNOWN_TIME_MS
    stream_ids = frozenset() if topic is None else frozenset(moment.stream_ids_of(topic))
    topic_id = None if topic is None else moment.image.topic_ids.get(topic, "")
    for version, entry in moment.entries():
        known_ms = max(known_ms, *map(known_time_ms, entry.records), UNKNOWN_TIME_MS)
        for position, record in enumerate(entry.records):
            if topic_id is None or _concerns(record, topic_id, stream_ids):
                yield LogRow(version, position, known_ms, entry.append_id, record)


def _concerns(record: Record, topic_id: str, stream_ids: frozenset[int]) -> bool:
    if getattr(record, "topic_id", None) == topic_id or getattr(record, "stream_id", None) in stream_ids:
        return True
    lists = (getattr(record, name, ()) for name in ("ranges", "ends", "loads", "rolled"))
    return any(_stream_of(each) in stream_ids for listed in lists for each in listed)


def _stream_of(item: Any) -> int:
    return int(item[0] if isinstance(item, tuple) else item.stream_id)


def fields_text(record: Record, items_max: int = ITEMS_MAX) -> str:
    """Returns the fields of a record as a JSON object, without what is secret. Lists are cut after ``items_max``."""
    fields = {name: _plain(value, items_max) for name, value in msgspec.structs.asdict(record).items()}
    if isinstance(record, ScramCredentialSet):
        fields = {"user": record.user, "mechanism": record.mechanism, "rounds": record.rounds}
    elif isinstance(record, KeySet):
        fields = {"key": record.key, **_shown_value(record)}
    return without_credentials(msgspec.json.encode(fields).decode())


def _shown_value(record: KeySet) -> dict[str, object]:
    if record.key.startswith(SHOWN_KEYS):
        try:
            return {"value": record.value.decode()}
        except UnicodeDecodeError:
            pass
    return {"value_bytes": len(record.value)}


def _plain(value: Any, items_max: int) -> Any:
    """Returns a field as what JSON can say: structs as objects, enumerations by name, long lists cut."""
    if isinstance(value, msgspec.Struct):
        return {name: _plain(each, items_max) for name, each in msgspec.structs.asdict(value).items()}
    if isinstance(value, (tuple, list)):
        shown = [_plain(each, items_max) for each in value[:items_max]]
        return [*shown, f"and {len(value) - items_max} more"] if len(value) > items_max else shown
    if isinstance(value, bytes):
        return value.hex()
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else value


LOG = MetadataTable(
    "log",
    "The entries that the metadata log still has: what has happened, a row for each record, oldest first.",
    (
        whole("version", "The version of the metadata with this entry."),
        whole("position", "The number of the record in its entry."),
        time(
            "known_at",
            "The newest time that this entry or one before it names: it was written then or later.",
            "time_ms",
        ),
        field("record", MetadataType.TEXT, "The kind of record.", "kind"),
        computed(
            "fields",
            MetadataType.TEXT,
            "What it says, as a JSON object; no secret is in it.",
            lambda _, row: fields_text(row.record),
        ),
        field("append_id", MetadataType.TEXT, "The random id of the append."),
    ),
    log_rows,
    rows_max=LOG_ROWS_MAX,
)
