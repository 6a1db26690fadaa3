"""The metadata records how far each topic is in its table: a copy of the table's ledger, never ahead of it. Pure.

The progress of a topic is one metadata key:

    key      table-progress/<topic id, 32 hex digits>
    value    {"version": 1, "table": "kafka.flights", "table_format": "iceberg", "offsets": {"0": 1200},
              "exported_ms": …, "rows": …, "dead_letters": …, "lost": …, "swept_ms": …}

    key      table-schemas/<topic id>, for values with schemas
    value    [1, 7]: the ids of the schemas that rounds have met

    key      table-columns/<topic id>, for values whose columns are found
    value    {"version": 1, "columns": [["carrier", "string"], ["delay", "long"]]}

    key      table-replay/<topic id>, while dead letters are moved into the table
    value    {"version": 1, "token": …, "removed": […], "added": […]}: a commit to the table of dead letters that is due
             once the table's ledger has the token

The driver writes the progress after each commit to the table. A crash between the two leaves it behind, and then more
data is kept, or an export is planned that finds nothing to do. Retention and key compaction read it if
``siltstone.table.retention`` is set, because they then wait for the export. Commands read it, so that they need not
open the table.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from siltstone.foundation.quantity_words import count_words
from siltstone.metadata.commands import PutKey, RemoveKey
from siltstone.metadata.image import ImageView
from siltstone.model.errors import CorruptData
from siltstone.offline.topic_streams import Role, TopicStream
from siltstone.record_columns.row_columns import VALUE
from siltstone.tables.formats.port import DataFile, TableFile
from siltstone.topic_configs.table_export import TableColumn
from siltstone.value_formats.wire import SchemaName, in_order

KEY_PREFIX = "table-progress/"
SCHEMAS_PREFIX = "table-schemas/"
COLUMNS_PREFIX = "table-columns/"
REPLAY_PREFIX = "table-replay/"
SCHEMA_IDS_MAX = 200
"""A round begins with so many schemas of earlier rounds, the newest. A task that meets another one runs twice."""

VERSION = 1


class DamagedTableProgress(CorruptData):
    """The value of a topic's key cannot be decoded, or was written by a newer version."""


class TableProgress(msgspec.Struct, frozen=True, kw_only=True):
    """``rows`` are those of the table, ``dead_letters`` those of its table of dead letters, ``lost`` the offsets that
    were removed before they were exported. At ``swept_ms`` files of failed rounds were last looked for."""

    table: str
    table_format: str
    offsets: dict[int, int] = {}
    exported_ms: int = 0
    rows: int = 0
    dead_letters: int = 0
    lost: int = 0
    swept_ms: int = 0
    version: int = VERSION

    def is_of(self, table: str, table_format: str) -> bool:
        """Returns whether this is the progress of that table: the topic may have been configured for another table
        since."""
        return (self.table, self.table_format) == (table, table_format)


def key_of(topic_id: str) -> str:
    return f"{KEY_PREFIX}{topic_id}"


def put_progress(topic_id: str, progress: TableProgress) -> PutKey:
    return PutKey(key_of(topic_id), msgspec.json.encode(progress), overwrite=True)


def remove_progress(topic_id: str) -> RemoveKey:
    return RemoveKey(key_of(topic_id))


def put_schema_names(topic_id: str, names: Iterable[SchemaName], of: str = VALUE) -> PutKey:
    """Returns the command that records the schemas of a topic's values, or of its keys."""
    value = msgspec.json.encode(in_order(names)[-SCHEMA_IDS_MAX:])
    return PutKey(_schemas_key(topic_id, of), value, overwrite=True)


def _schemas_key(topic_id: str, of: str) -> str:
    return f"{SCHEMAS_PREFIX}{topic_id}" if of == VALUE else f"{SCHEMAS_PREFIX}{topic_id}/{of}"


def schema_names_of(image: ImageView, topic_id: str, of: str = VALUE) -> tuple[SchemaName, ...]:
    """Returns the schemas that earlier rounds have met, by id or GUID; a value that cannot be read counts as none, as
    the names only save work."""
    stored = image.keys.get(_schemas_key(topic_id, of), b"[]")
    try:
        return msgspec.json.decode(stored, type=tuple[SchemaName, ...])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()


class KeptColumns(msgspec.Struct, frozen=True):
    """The columns that were found from a topic's records."""

    columns: tuple[TableColumn, ...]
    version: int = VERSION


def put_columns(topic_id: str, columns: Iterable[TableColumn]) -> PutKey:
    """Returns the command that records the columns that were found from a topic's records. If two drivers record
    columns at once, one may be missing that the table has; the next round takes it from there."""
    value = msgspec.json.encode(KeptColumns(tuple(columns)))
    return PutKey(f"{COLUMNS_PREFIX}{topic_id}", value, overwrite=True)


def remove_columns(topic_id: str) -> RemoveKey:
    return RemoveKey(f"{COLUMNS_PREFIX}{topic_id}")


def columns_of(image: ImageView, topic_id: str) -> tuple[TableColumn, ...]:
    """Returns the columns that earlier rounds have found. Raises DamagedTableProgress."""
    kept = _stored(image, f"{COLUMNS_PREFIX}{topic_id}", KeptColumns, "the columns of a table")
    return () if kept is None else kept.columns


class PendingReplay(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters that are being moved into their table: the commit ``token`` adds them there. Then the files
    ``removed`` of the dead letters are replaced by ``added``, which have the ones that still cannot be decoded."""

    token: str
    removed: tuple[TableFile, ...]
    added: tuple[DataFile, ...]
    version: int = VERSION


Kept = TypeVar("Kept", TableProgress, KeptColumns, PendingReplay)


def put_replay(topic_id: str, pending: PendingReplay) -> PutKey:
    return PutKey(f"{REPLAY_PREFIX}{topic_id}", msgspec.json.encode(pending), overwrite=True)


def remove_replay(topic_id: str) -> RemoveKey:
    return RemoveKey(f"{REPLAY_PREFIX}{topic_id}")


def replay_of(image: ImageView, topic_id: str) -> PendingReplay | None:
    """Returns the replay that is under way; None if there is none. Raises DamagedTableProgress."""
    return _stored(image, f"{REPLAY_PREFIX}{topic_id}", PendingReplay, "the replay of dead letters")


def schemas_gone(image: ImageView) -> list[RemoveKey]:
    """Returns the commands that remove the schemas, columns and replays of deleted topics."""
    topics: dict[str, str] = {}
    for prefix in (SCHEMAS_PREFIX, COLUMNS_PREFIX, REPLAY_PREFIX):
        named = [key for key in image.keys if key.startswith(prefix)]
        topics |= {key: key.removeprefix(prefix).partition("/")[0] for key in named}
    return [RemoveKey(key) for key in sorted(topics) if topics[key] not in image.topics]


def progress_of(image: ImageView, topic_id: str) -> TableProgress | None:
    """Returns None before the first export. Raises DamagedTableProgress."""
    return _stored(image, key_of(topic_id), TableProgress, "the progress of a table")


def _stored(image: ImageView, key: str, kind: type[Kept], what: str) -> Kept | None:
    """Returns the value of a key; None if the key is not there. Raises DamagedTableProgress."""
    stored = image.keys.get(key)
    if stored is None:
        return None
    try:
        found = msgspec.json.decode(stored, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as damage:
        raise DamagedTableProgress(f"{what} cannot be read: {damage}") from damage
    if found.version != VERSION:
        raise DamagedTableProgress(f"{what} has version {found.version}; this program reads {VERSION}")
    return found


def topics_gone(image: ImageView) -> list[str]:
    """Returns the ids of topics that were deleted, and whose progress is still kept."""
    named = [key.removeprefix(KEY_PREFIX) for key in image.keys if key.startswith(KEY_PREFIX)]
    return sorted(topic_id for topic_id in named if topic_id not in image.topics)


def exported_offset(image: ImageView, stream: TopicStream) -> int | None:
    """Up to which offset the records of a stream are in the topic's table, if retention and key compaction have to wait
    for it; None if they need not. A progress that cannot be read counts as none."""
    table = stream.config.table
    if not (table.table_format and table.holds_retention) or stream.role is not Role.BATCHES:
        return None
    try:
        progress = progress_of(image, stream.topic.topic_id)
    except DamagedTableProgress:
        return 0
    is_of_it = progress is not None and progress.is_of(table.name_for(stream.topic.name), table.table_format)
    return progress.offsets.get(stream.partition, 0) if progress is not None and is_of_it else 0


def bound_of(image: ImageView) -> Callable[[TopicStream], tuple[int, str] | None]:
    """Returns a function that returns how far a stream may be trimmed because of its table, and the reason; None when
    no table limits it."""

    def bound(stream: TopicStream) -> tuple[int, str] | None:
        exported = exported_offset(image, stream)
        if exported is None:
            return None
        table = stream.config.table.name_for(stream.topic.name)
        return exported, f"the records from offset {count_words(exported)} on are not in table {table} yet"

    return bound
