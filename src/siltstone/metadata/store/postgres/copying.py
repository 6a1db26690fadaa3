"""A metadata log in PostgreSQL that is being written by ``metadata.copying``.

The tables are those of ``tables``. The log is incomplete as long as ``log_identity`` has no row: then no process opens
it, and another attempt starts from the beginning. All that is written is written in one transaction, and completed in
another one: two processes that copy at the same time never mix what they write, and neither completes what the other
has written."""

from collections.abc import Iterator
from typing import Any

from siltstone.metadata.log_entry import LogPosition, link_of
from siltstone.metadata.store.port import LogUnavailable
from siltstone.metadata.store.postgres.connection import Session, TimedConnection
from siltstone.metadata.store.postgres.place import PostgresPlace
from siltstone.metadata.store.postgres.tables import (
    EMPTY_TABLES,
    IDENTITY,
    creation_refused,
    found_in,
    identity_rows,
    in_schema,
    log_is_there,
    run_script,
)
from siltstone.model.limits import MINUTE_MS
from siltstone.runtime.clock import Clock

WRITE_DEADLINE_MS = 10 * MINUTE_MS
"""Enough for the snapshot of millions of streams through a slow network; the server ends each statement sooner."""

_DROP = """
DROP TABLE {schema}.entries, {schema}.chunks, {schema}.snapshots, {schema}.log_identity;
DROP TABLE IF EXISTS {schema}.leases
"""
_CHUNK = "INSERT INTO {schema}.chunks VALUES (%b::bigint, %b::int, %b::bytea)"
_ENTRY = "INSERT INTO {schema}.entries VALUES (%b::bigint, %b::bytea, %b::bytea)"
_SNAPSHOT = "INSERT INTO {schema}.snapshots VALUES (%b::bigint, %b::int)"
_CHUNKS = "SELECT chunk FROM {schema}.chunks WHERE number = %b::int"
_IS_COMPLETE = "SELECT EXISTS (SELECT FROM {schema}.log_identity)"
_IS_AT = "SELECT EXISTS (SELECT FROM {schema}.entries WHERE version = %b::bigint AND append_id = %b::bytea)"


class PostgresCopy:
    def __init__(self, place: PostgresPlace, clock: Clock) -> None:
        """Opens no connection yet. Raises LogUrlMalformed."""
        self._session = Session(place, clock, WRITE_DEADLINE_MS)

    def is_complete(self) -> bool:
        return log_is_there(self._session) and bool(identity_rows(self._session))

    def write(self, position: LogPosition, entry: bytes, chunks: Iterator[bytes]) -> None:
        place = self._session.place
        with self._session.transaction() as connection:
            if found_in(connection, place):
                if self._truth(connection, _IS_COMPLETE):
                    raise LogUnavailable(
                        f"another process has completed the copy in {place.shown}; try again"
                    )
                connection.execute(self._sql(_DROP))
            refused = run_script(connection, place, EMPTY_TABLES)
            if refused is None:
                self._fill(connection, position, entry, chunks)
        if refused is not None:
            raise creation_refused(place, refused)

    def chunks(self) -> Iterator[bytes]:
        number = 0
        while rows := self._session.read(self._sql(_CHUNKS), (number,)):
            yield rows[0][0]
            number += 1

    def complete(self, position: LogPosition) -> None:
        place = self._session.place
        with self._session.transaction() as connection:
            values = position.version, bytes.fromhex(position.append_id)
            if not found_in(connection, place) or not self._truth(connection, _IS_AT, *values):
                raise LogUnavailable(f"another process writes the copy in {place.shown}, too; try again")
            if not self._truth(connection, _IS_COMPLETE):
                run_script(connection, place, IDENTITY)

    def close(self) -> None:
        self._session.close()

    def _fill(
        self, connection: TimedConnection, position: LogPosition, entry: bytes, chunks: Iterator[bytes]
    ) -> None:
        count = 0
        for chunk in chunks:
            connection.execute(self._sql(_CHUNK), (position.version, count, chunk), binary=True)
            count += 1
        written = position.version, bytes.fromhex(link_of(entry).append_id), entry
        connection.execute(self._sql(_ENTRY), written, binary=True)
        connection.execute(self._sql(_SNAPSHOT), (position.version, count), binary=True)

    def _truth(self, connection: TimedConnection, text: str, *values: Any) -> bool:
        ((truth,),) = connection.execute(self._sql(text), values or None, binary=True).fetchall()
        return bool(truth)

    def _sql(self, text: str) -> Any:
        return in_schema(self._session, text)
