"""Tells a server that refuses a connection from one that cannot be reached, when a log is opened.

A process that starts while PostgreSQL is down waits for it; a wrong password must end it at once. libpq reports both by
a text in the server's language. ``PQping`` tells them apart: it succeeds when a server answers, whatever the answer is.
A standby answers, too, and is no refusal: it may be promoted.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.errors import ConnectionTimeout
from psycopg.pq import PGconn, Ping

from siltstone.metadata.store.port import LogUnavailable
from siltstone.metadata.store.postgres.connection import (
    CONNECT_TIMEOUT_SECONDS_MIN,
    NoConnection,
    parameters_of,
)
from siltstone.metadata.store.postgres.place import PostgresPlace


@contextmanager
def refusals_told_apart(place: PostgresPlace) -> Iterator[None]:
    """In this block, raises LogUnavailable for a connection that a server refused. LogOutOfReach remains for one that
    no server answered. It is for openings only: psycopg may hold up all threads during the ping."""
    try:
        yield
    except NoConnection as failed:
        if _is_refused(place):
            raise LogUnavailable(str(failed)) from None
        raise


def _is_refused(place: PostgresPlace) -> bool:
    parameters = {
        **parameters_of(place),
        "target_session_attrs": "any",
        "connect_timeout": CONNECT_TIMEOUT_SECONDS_MIN,
    }
    if PGconn.ping(make_conninfo(**parameters).encode()) in (Ping.REJECT, Ping.NO_RESPONSE):
        return False
    try:
        psycopg.connect(**parameters).close()
    except ConnectionTimeout:
        return False
    except psycopg.Error:
        return True
    return False  # a standby, or a server that has come up meanwhile
