"""The metadata log in PostgreSQL, for any number of processes on any number of machines.

**Append** is one statement, and only the primary key on ``version`` protects the log: ``turns`` are a courtesy. The
entry is inserted where the entry at the expected version has the expected append id; a rival's entry is a conflict, and
ours is not written. A rival whose insert is in flight makes ours wait for his commit; if he aborts, ours goes through.
Version v + 2 needs a committed v + 1, so no reader ever sees a gap.

**Truncation.** A statement may sleep (its process was stopped) after it has seen that v is the head. If v + 1 were
dropped meanwhile, there would be no conflict, and the statement would write below the oldest entry. So an entry is
dropped only when it is older than ENTRY_AGE_MIN, far beyond the time that the server gives a statement.

**Lost answers** are those of ``connection``. What is unknown is settled only by an entry at its version: a backend that
outlives its client may commit later.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from siltstone.metadata.log_entry import LogPosition, link_of
from siltstone.metadata.store.port import (
    READ_BYTES_MAX,
    AppendUncertain,
    LogEndsTooEarly,
    LogTruncated,
    LogUnavailable,
    Snapshot,
    VersionMovedOn,
)
from siltstone.metadata.store.postgres.connection import CALL_DEADLINE_MS, Session, TimedConnection
from siltstone.metadata.store.postgres.news import News
from siltstone.metadata.store.postgres.place import PostgresPlace
from siltstone.metadata.store.postgres.reach import refusals_told_apart
from siltstone.metadata.store.postgres.tables import in_schema, log_is_there, open_tables
from siltstone.metadata.store.postgres.turns import Turns
from siltstone.runtime.clock import Clock, SystemClock

ENTRIES_KEPT = 10_000
"""Entries kept before a snapshot, as in ``metadata.store.sqlite``."""

FEW_ENTRIES = 100
FEW_ENTRY_BYTES_MAX = 64 << 10
"""What a node reads at most times, if there is anything to read."""

ENTRY_AGE_MIN = "10 minutes"
"""An entry that is dropped is older. A statement sleeps for at most some seconds (STATEMENT_TIMEOUT_MS)."""

_FIRST = """
INSERT INTO {schema}.entries (version, append_id, entry) SELECT 1, %b, %b
WHERE NOT EXISTS (SELECT FROM {schema}.entries) ON CONFLICT (version) DO NOTHING RETURNING version
"""
_APPEND = """
INSERT INTO {schema}.entries (version, append_id, entry) SELECT %b::bigint + 1, %b, %b
WHERE EXISTS (SELECT FROM {schema}.entries WHERE version = %b::bigint AND append_id = %b)
ON CONFLICT (version) DO NOTHING RETURNING version
"""
_CONFIRM = "UPDATE {schema}.log_identity SET confirmations = confirmations + 1"
_HEAD = "SELECT version, append_id FROM {schema}.entries ORDER BY version DESC LIMIT 1"
_READ_FEW = """
SELECT version, CASE WHEN version > %b::bigint AND octet_length(entry) <= %b::int THEN entry END
FROM {schema}.entries WHERE version >= %b::bigint ORDER BY version LIMIT %b::bigint
"""
_READ_AFTER = """
SELECT head, version, entry
FROM (SELECT coalesce(max(version), 0) AS head FROM {schema}.entries) AS newest
LEFT JOIN (
    SELECT version, entry, sum(octet_length(entry)) OVER (ORDER BY version) - octet_length(entry) AS bytes_before
    FROM (
        SELECT version, entry FROM {schema}.entries WHERE version > %b::bigint ORDER BY version LIMIT %b::bigint
    ) AS few
) AS later ON bytes_before < %b::bigint
ORDER BY version
"""
_PUT_CHUNK = """
INSERT INTO {schema}.chunks VALUES (%b::bigint, %b::int, %b)
ON CONFLICT (version, number) DO UPDATE SET chunk = excluded.chunk
"""
_DROP = """
DELETE FROM {schema}.entries WHERE version <= %b::bigint AND version < coalesce(
    (SELECT min(version) FROM {schema}.entries WHERE appended > clock_timestamp() - %s::interval), %b::bigint + 1)
"""


def lock_key(schema: str) -> int:
    """Advisory locks are numbers of 64 bits, of the whole database."""
    digest = hashlib.sha256(f"siltstone {schema}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def postgres_log_exists(place: PostgresPlace) -> bool:
    """Raises LogUnavailable, LogOutOfReach."""
    session = Session(place, SystemClock())
    try:
        with refusals_told_apart(place):
            return log_is_there(session)
    finally:
        session.close()


class PostgresLog:
    read_only_note = ""

    def __init__(
        self,
        place: PostgresPlace,
        *,
        create: bool = True,
        clock: Clock | None = None,
        entries_kept: int = ENTRIES_KEPT,
        entry_age_min: str = ENTRY_AGE_MIN,
        call_deadline_ms: float = CALL_DEADLINE_MS,
    ) -> None:
        """``entry_age_min`` is an interval in PostgreSQL's words. Raises LogUrlMalformed, LogNotFound, NotMetadataLog,
        LogVersionUnknown, LogUnavailable, LogOutOfReach."""
        assert entries_kept >= 1, "the newest entry has the append id that the next append names"
        self._entries_kept = entries_kept
        self._statements: dict[str, Any] = {}
        self._entry_age_min = entry_age_min
        clock = clock or SystemClock()
        self._session = Session(place, clock, call_deadline_ms)
        self._lock_key = lock_key(place.schema)
        self._turns = Turns(place, self._lock_key, clock)
        self._news: News | None = None
        self._place, self._clock = place, clock
        try:
            with refusals_told_apart(place):
                open_tables(self._session, create=create)
        except BaseException:
            self._session.close()
            raise

    def take_turn(self) -> bool:
        return self._turns.take()

    def append(self, entry: bytes, expected: LogPosition) -> LogPosition:
        with self._turns.appending:
            head = self._appended(entry, expected)
        if self._news is not None:
            self._news.appended()
        return head

    def _appended(self, entry: bytes, expected: LogPosition) -> LogPosition:
        append_id = link_of(entry).append_id
        written = bytes.fromhex(append_id), entry
        if expected.version == 0:
            count = self._session.append(self._sql(_FIRST), written)
        else:
            follows = expected.version, bytes.fromhex(expected.append_id)
            count = self._session.append(self._sql(_APPEND), (expected.version, *written, *follows))
        if count == 0:
            self._confirm_append()
            raise VersionMovedOn(f"the log is not at version {expected.version}; read on")
        return LogPosition(expected.version + 1, append_id)

    def read_after(
        self, version: int, limit: int, bytes_max: int = READ_BYTES_MAX
    ) -> list[tuple[int, bytes]]:
        if version and limit > FEW_ENTRIES and bytes_max >= FEW_ENTRIES * FEW_ENTRY_BYTES_MAX:
            few = self._read_few(version)
            if few is not None:
                return few
        rows = self._read(_READ_AFTER, version, limit, bytes_max)
        head, first, _ = rows[0]
        if version > head:
            raise LogEndsTooEarly(
                f"the metadata log in {self._session.place.shown} ends at version {head}, and version {version} was "
                "read from it before: an older copy was restored, or a standby without the newest entries was "
                "promoted; restore the newest copy"
            )
        if version < head and first != version + 1:
            raise LogTruncated(f"entries after version {version} were dropped; load the snapshot")
        return [(number, entry) for _, number, entry in rows if number is not None]

    def head(self) -> LogPosition:
        """What was read is confirmed after it was read: commands that change nothing are answered from it."""
        rows = self._read(_HEAD)
        self._session.confirm(self._sql(_CONFIRM))
        return LogPosition(rows[0][0], rows[0][1].hex()) if rows else LogPosition()

    def save_snapshot(self, position: LogPosition, chunks: Iterable[bytes]) -> None:
        """Writes each chunk by a statement of its own, so that appends pass between them; one transaction makes the
        snapshot valid."""
        version, count = position.version, 0
        for chunk in chunks:
            self._read(_PUT_CHUNK, version, count, chunk)
            count += 1
        with self._session.transaction() as connection:
            self._complete_snapshot(connection, version, count)

    def snapshot_version(self) -> int | None:
        rows: list[tuple[int | None]] = self._read("SELECT max(version) FROM {schema}.snapshots")
        return rows[0][0]

    def load_snapshot(self) -> Snapshot | None:
        rows = self._read("SELECT version, chunk_count FROM {schema}.snapshots ORDER BY version DESC LIMIT 1")
        if not rows:
            return None
        ((version, count),) = rows
        return Snapshot(version, self._chunks(version, count))

    def listen(self, on_news: Callable[[], None]) -> News:
        channel = f"siltstone_{self._lock_key % 2**64:016x}"
        self._news = News(self._place, channel, self._clock, on_news)
        return self._news

    def clock_offset_ms(self) -> int:
        return self._session.clock_offset_ms

    def close(self) -> None:
        if self._news is not None:
            self._news.close()
        self._turns.close()
        self._session.close()

    def _read_few(self, version: int) -> list[tuple[int, bytes]] | None:
        """Returns what ``read_after`` does when the entry ``version`` is there and few small ones follow it; else
        None. Its plan costs the server a quarter of that of _READ_AFTER."""
        rows = self._read(_READ_FEW, version, FEW_ENTRY_BYTES_MAX, version, FEW_ENTRIES + 2)
        if not rows or rows[0][0] != version or len(rows) > FEW_ENTRIES + 1:
            return None
        later: list[tuple[int, bytes]] = rows[1:]
        return None if any(entry is None for _, entry in later) else later

    def _confirm_append(self) -> None:
        """Confirms an append before the caller looks whether the entry at its version is its own, which counts as
        success. Raises AppendUncertain."""
        try:
            self._session.confirm(self._sql(_CONFIRM))
        except LogUnavailable as error:
            raise AppendUncertain(str(error)) from error

    def _chunks(self, version: int, count: int) -> Iterator[bytes]:
        for number in range(count):
            query = "SELECT chunk FROM {schema}.chunks WHERE version = %b::bigint AND number = %b::int"
            rows = self._read(query, version, number)
            if not rows:
                raise LogTruncated(f"the snapshot at version {version} was replaced; load the newer one")
            yield rows[0][0]

    def _complete_snapshot(self, connection: TimedConnection, version: int, count: int) -> None:
        """Makes the snapshot valid and drops older snapshots and entries (``sqlite._complete_snapshot``). The row lock
        lets one process at a time do so."""

        def run(text: str, *values: Any) -> Any:
            return connection.execute(self._sql(text), values, binary=True)

        run("SELECT FROM {schema}.log_identity FOR UPDATE")
        ((found,),) = run(
            "SELECT count(*) FROM {schema}.chunks WHERE version = %b::bigint", version
        ).fetchall()
        ((newer,),) = run(
            "SELECT count(*) FROM {schema}.snapshots WHERE version > %b::bigint", version
        ).fetchall()
        if newer or found < count:
            run("DELETE FROM {schema}.chunks WHERE version = %b::bigint", version)
            return
        run(
            "INSERT INTO {schema}.snapshots VALUES (%b::bigint, %b::int) "
            "ON CONFLICT (version) DO UPDATE SET chunk_count = excluded.chunk_count",
            version, count,
        )  # fmt: skip
        run("DELETE FROM {schema}.snapshots WHERE version < %b::bigint", version)
        run("DELETE FROM {schema}.chunks WHERE version < %b::bigint", version)
        drop_until = version - self._entries_kept
        run(_DROP, drop_until, self._entry_age_min, drop_until)

    def _read(self, query: str, *values: Any) -> list[Any]:
        return self._session.read(self._sql(query), values)

    def _sql(self, text: str) -> Any:
        if text not in self._statements:
            self._statements[text] = in_schema(self._session, text)
        return self._statements[text]
