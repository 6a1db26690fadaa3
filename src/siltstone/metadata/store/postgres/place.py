"""The place of a metadata log in PostgreSQL is a URL: ``postgresql://user@host:port/database?schema=siltstone``.

The URL is libpq's (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING), so it may name several
hosts and any option of libpq, with ``schema`` added: the schema that holds the tables of one log. A password is better
kept out of it, in ~/.pgpass or in PGPASSWORD; one that it has is left out of everything that is printed.
"""

import re
from urllib.parse import unquote

import msgspec

from siltstone.foundation.credentials import without_password

SCHEMES = ("postgresql", "postgres")
SCHEMA_DEFAULT = "siltstone"
_SCHEMA = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


class PostgresPlace(msgspec.Struct, frozen=True):
    """``conninfo`` is the URL for libpq, which may hold a password; ``shown`` is the URL for people, without one."""

    conninfo: str
    schema: str
    shown: str

    def __repr__(self) -> str:
        return f"PostgresPlace({self.shown!r})"

    __str__ = __repr__


def is_postgres_url(url: str) -> bool:
    return url.partition("://")[0] in SCHEMES


def place_of(url: str) -> PostgresPlace | None:
    """Returns the place that the URL names; None when its scheme or its schema is none. All options but the schema are
    left to libpq as they are written."""
    server, _, query = url.partition("?")
    options = [option for option in query.split("&") if option]
    schemas = [option.removeprefix("schema=") for option in options if option.startswith("schema=")]
    schema = unquote(schemas[-1]) if schemas else SCHEMA_DEFAULT
    if not is_postgres_url(url) or not _SCHEMA.fullmatch(schema):
        return None
    for_libpq = "&".join(option for option in options if not option.startswith("schema="))
    return PostgresPlace(f"{server}?{for_libpq}" if for_libpq else server, schema, without_password(url))
