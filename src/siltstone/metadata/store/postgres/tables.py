"""The tables of a metadata log in PostgreSQL, in a schema of their own, and how they are created once.

============== ================================== =========================================================
table          columns                            holds
============== ================================== =========================================================
log_identity   tables_version, confirmations      one row; a log without it was not copied completely
entries        version, append_id, entry,         the log; entries up to some version may have been dropped.
               appended                           ``append_id`` is that of the chain: 16 zeros before it
chunks         version, number, chunk             snapshots, complete or being written
snapshots      version, chunk_count               the complete snapshots; chunks without a row are ignored
============== ================================== =========================================================

Only the primary key of ``entries`` protects an append. ``appended`` is the server's time: an entry is dropped
only when it is older than any statement can be (``log``). ``confirmations`` is counted up for the sake of the commit.
"""

from typing import Any

import psycopg
from psycopg import sql

from siltstone.metadata.store.port import LogNotFound, LogUnavailable, LogVersionUnknown, NotMetadataLog
from siltstone.metadata.store.postgres.connection import Session, TimedConnection
from siltstone.metadata.store.postgres.place import PostgresPlace
from siltstone.model.errors import SiltstoneError

TABLES_VERSION = 1
ADVISORY_LOCK = 0x53494C54
"""Held while the tables are created: "SILT"."""

EMPTY_TABLES = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE {schema}.entries (version bigint PRIMARY KEY, append_id bytea NOT NULL, entry bytea NOT NULL,
                               appended timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE {schema}.chunks (version bigint NOT NULL, number int NOT NULL, chunk bytea NOT NULL,
                              PRIMARY KEY (version, number));
CREATE TABLE {schema}.snapshots (version bigint PRIMARY KEY, chunk_count int NOT NULL);
ALTER TABLE {schema}.entries ALTER COLUMN entry SET STORAGE EXTERNAL;
ALTER TABLE {schema}.chunks ALTER COLUMN chunk SET STORAGE EXTERNAL;
CREATE TABLE {schema}.log_identity (tables_version int NOT NULL, confirmations bigint NOT NULL);
"""
IDENTITY = "INSERT INTO {schema}.log_identity VALUES ({tables_version}, 0);"
TABLES = EMPTY_TABLES + IDENTITY
_FIND = sql.SQL(
    "SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS found JOIN pg_catalog.pg_namespace AS place "
    "ON place.oid = found.relnamespace WHERE place.nspname = %s AND found.relname = 'log_identity')"
)
"""Not ``to_regclass``: a session that has looked before remembers that there is none, until its next transaction."""

_DUPLICATE_TABLE = "42P07"
_NO_RIGHT = "42501"


def in_schema(session: Session, text: str) -> sql.Composed:
    """Returns the statement with the name of the log's schema in place of ``{schema}``."""
    return sql.SQL(text).format(schema=sql.Identifier(session.place.schema))


def log_is_there(session: Session) -> bool:
    """Raises LogUnavailable."""
    ((found,),) = session.read(_FIND, (session.place.schema,))
    return bool(found)


def open_tables(session: Session, *, create: bool) -> None:
    """Checks the tables; with ``create`` they are created if they do not exist. Raises LogNotFound, NotMetadataLog,
    LogVersionUnknown, LogUnavailable."""
    if not log_is_there(session):
        if not create:
            raise LogNotFound(f"no metadata log at {session.place.shown}; check the database and its schema")
        _create(session)
    _check(session)


def _create(session: Session) -> None:
    """Several processes may do so at once: one creates the tables, and the others find them."""
    with session.transaction() as connection:
        refused = (
            None if found_in(connection, session.place) else run_script(connection, session.place, TABLES)
        )
    if refused is not None:
        raise creation_refused(session.place, refused)


def found_in(connection: TimedConnection, place: PostgresPlace) -> bool:
    """Returns whether the tables are there. Until the transaction ends, no other process creates them, or completes a
    copy."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (ADVISORY_LOCK,))
    ((found,),) = connection.execute(_FIND, (place.schema,)).fetchall()
    return bool(found)


def run_script(connection: TimedConnection, place: PostgresPlace, text: str) -> psycopg.Error | None:
    """Runs statements that create tables. Returns the error for ``creation_refused`` to explain after the end of the
    transaction, if there was one."""
    script = sql.SQL(text).format(
        schema=sql.Identifier(place.schema), tables_version=sql.Literal(TABLES_VERSION)
    )
    try:
        with connection.transaction():
            connection.execute(script)
    except psycopg.Error as error:
        if error.sqlstate not in (_DUPLICATE_TABLE, _NO_RIGHT):
            raise
        return error
    return None


def creation_refused(place: PostgresPlace, refused: psycopg.Error) -> SiltstoneError:
    reason = str(refused).partition("\n")[0]
    if refused.sqlstate == _DUPLICATE_TABLE:
        return NotMetadataLog(
            f"the schema {place.schema} of {place.shown} has other tables ({reason}); name a schema of its own, with "
            "?schema=NAME"
        )
    statements = " ".join(TABLES.split()).replace("{schema}", place.schema)
    return LogUnavailable(
        f"the tables of the metadata log cannot be created in {place.shown}: {reason}; give the user the right to "
        f"create them, or have them created by: {statements.replace('{tables_version}', str(TABLES_VERSION))}"
    )


def identity_rows(session: Session) -> list[Any]:
    """Returns the tables' version for each row of the identity: a log that is complete has one. Raises
    LogUnavailable."""
    return session.read(
        in_schema(session, "SELECT (to_jsonb(row) ->> 'tables_version')::int FROM {schema}.log_identity row")
    )


def _check(session: Session) -> None:
    rows = identity_rows(session)
    if not rows:
        raise NotMetadataLog(
            f"the metadata log in {session.place.shown} was not copied completely; repeat siltstone metadata copy"
        )
    if len(rows) != 1 or rows[0][0] is None:
        raise NotMetadataLog(
            f"the schema {session.place.schema} of {session.place.shown} holds no metadata log of Siltstone; check the "
            "URL"
        )
    if rows[0][0] != TABLES_VERSION:
        raise LogVersionUnknown(
            f"the metadata log in {session.place.shown} has tables of version {rows[0][0]}, and this program uses "
            f"version {TABLES_VERSION}; use the version that created it"
        )
