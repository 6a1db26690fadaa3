"""The lease board in PostgreSQL, beside the log: a table of the log's schema, for nodes on any number of machines.

============ ============================================ ===============================
table        columns                                      holds
============ ============================================ ===============================
leases       node_id, node_epoch, number, incarnation     the newest beat of a node
loads        node_id, load (msgpack, ``NodeLoad``)        what a node measured last
node_secrets node_id, node_epoch, incarnation, secret     what proves a life of a node
============ ============================================ ===============================

A role that only reads the store gets no right on ``node_secrets``.

The board has a connection of its own: if beats waited behind an append that hangs, all leases would end. The table is
UNLOGGED: a beat costs no fsync and waits for no standby, whatever ``synchronous_commit`` says, and a server that
crashed or was promoted begins with an empty board, which is a second old at most.
"""

from collections.abc import Sequence
from typing import Any

from siltstone.metadata.leases.board import (
    BOARD_DEADLINE_MS,
    Beat,
    BoardUnavailable,
    NodeLoad,
    NodeSecret,
    decode_loads,
    encode_load,
)
from siltstone.metadata.store.port import LogDamaged, LogReplaced, LogUnavailable
from siltstone.metadata.store.postgres.connection import Session
from siltstone.metadata.store.postgres.place import PostgresPlace
from siltstone.metadata.store.postgres.tables import ADVISORY_LOCK, in_schema
from siltstone.model.secret import Secret
from siltstone.runtime.clock import Clock

_TABLE = """
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.leases (node_id int PRIMARY KEY, node_epoch bigint NOT NULL,
                                                     number bigint NOT NULL, incarnation text NOT NULL)
"""
_LOADS_TABLE = (
    "CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.loads (node_id int PRIMARY KEY, load bytea NOT NULL)"
)
_SECRETS_TABLE = """
CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.node_secrets (node_id int PRIMARY KEY, node_epoch bigint NOT NULL,
                                                           incarnation text NOT NULL, secret text NOT NULL)
"""
_BEAT = """
INSERT INTO {schema}.leases VALUES (%b::int, %b::bigint, %b::bigint, %b::text) ON CONFLICT (node_id) DO UPDATE
SET node_epoch = excluded.node_epoch, number = excluded.number, incarnation = excluded.incarnation
"""
_BEATS = "SELECT node_id, node_epoch, number, incarnation FROM {schema}.leases ORDER BY node_id"
_FORGET = "DELETE FROM {schema}.leases WHERE node_id = %b::int"
_PUT_LOAD = """
INSERT INTO {schema}.loads VALUES (%b::int, %b::bytea) ON CONFLICT (node_id) DO UPDATE SET load = excluded.load
"""
_LOADS = "SELECT load FROM {schema}.loads ORDER BY node_id"
_PUT_PROOF = """
INSERT INTO {schema}.node_secrets VALUES (%b::int, %b::bigint, %b::text, %b::text) ON CONFLICT (node_id) DO UPDATE
SET node_epoch = excluded.node_epoch, incarnation = excluded.incarnation, secret = excluded.secret
"""
_SECRETS = "SELECT node_id, node_epoch, incarnation, secret FROM {schema}.node_secrets ORDER BY node_id"
_FORGET_PROOF = "DELETE FROM {schema}.node_secrets WHERE node_id = %b::int"
_FORGET_LOAD = "DELETE FROM {schema}.loads WHERE node_id = %b::int"


class PostgresBoard:
    def __init__(self, place: PostgresPlace, clock: Clock, *, deadline_ms: float = BOARD_DEADLINE_MS) -> None:
        """Opens no connection yet: a board that cannot be reached is out, and may be back later."""
        self._session = Session(place, clock, deadline_ms)

    def beat(self, beat: Beat) -> None:
        self._run(_BEAT, (beat.node_id, beat.node_epoch, beat.number, beat.incarnation))

    def beats(self) -> tuple[Beat, ...]:
        return tuple(Beat(*row) for row in self._run(_BEATS))

    def put_load(self, load: NodeLoad) -> None:
        self._run(_PUT_LOAD, (load.node_id, encode_load(load)))

    def loads(self) -> tuple[NodeLoad, ...]:
        return decode_loads(load for (load,) in self._run(_LOADS))

    def put_secret(self, secret: NodeSecret) -> None:
        self._run(
            _PUT_PROOF, (secret.node_id, secret.node_epoch, secret.incarnation, secret.secret.revealed())
        )

    def secrets(self) -> tuple[NodeSecret, ...]:
        return tuple(
            NodeSecret(node_id, node_epoch, incarnation, Secret(secret))
            for node_id, node_epoch, incarnation, secret in self._run(_SECRETS)
        )

    def forget(self, node_id: int) -> None:
        for statement in (_FORGET, _FORGET_LOAD, _FORGET_PROOF):
            self._run(statement, (node_id,))

    def close(self) -> None:
        self._session.close()

    def _run(self, text: str, values: Sequence[Any] = ()) -> list[Any]:
        """Runs a statement that may be repeated. The first one of a board without its table creates the table."""
        query = in_schema(self._session, text)
        try:
            try:
                return self._session.read(query, values)
            except LogReplaced:  # as the server's "no such table" is raised
                self._create()
                return self._session.read(query, values)
        except (LogUnavailable, LogReplaced, LogDamaged) as error:
            raise BoardUnavailable(f"the lease board cannot be used: {error}") from error

    def _create(self) -> None:
        """Creates the tables under a lock, because several nodes may do so at once: with "IF NOT EXISTS" alone one of
        them would fail."""
        with self._session.transaction() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (ADVISORY_LOCK,))
            connection.execute(in_schema(self._session, _TABLE))
            connection.execute(in_schema(self._session, _LOADS_TABLE))
            connection.execute(in_schema(self._session, _SECRETS_TABLE))
