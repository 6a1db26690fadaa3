"""Opens the metadata log that a URL names. Only this module and ``metadata.opening`` know the adapters.

===================================================  ==================================================
URL                                                  adapter
===================================================  ==================================================
``sqlite:///absolute/path/metadata.sqlite``          ``sqlite``, for the processes of one machine
``postgresql://user@host/database?schema=siltstone`` ``postgres``; see ``postgres.place`` for the options
===================================================  ==================================================
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

from siltstone.foundation.credentials import without_password
from siltstone.metadata.store.port import LogUrlMalformed, MetadataLog
from siltstone.metadata.store.postgres.place import PostgresPlace, is_postgres_url, place_of
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.model.errors import InvalidRequest
from siltstone.runtime.clock import Clock


class PostgresDriverMissing(InvalidRequest):
    """The URL needs psycopg, which is not installed."""


def open_log(
    url: str, *, create: bool = True, clock: Clock | None = None, untouched: bool = False
) -> MetadataLog:
    """Opens the log; with ``create`` it is created if it does not exist. ``untouched``: it is only looked at, so no
    file and no mode is changed. Raises LogUrlMalformed, PostgresDriverMissing,
    LogNotFound, NotMetadataLog, LogVersionUnknown, LogUnavailable."""
    if is_postgres_url(url):
        place = postgres_place_of(url)
        log: MetadataLog = postgres_adapter("store.postgres.log").PostgresLog(
            place, create=create, clock=clock
        )
        return log
    return SqliteLog(sqlite_path_of(url), create=create, untouched=untouched)


def log_exists(url: str) -> bool:
    """Returns whether there is a log where the URL says. Raises LogUrlMalformed, PostgresDriverMissing,
    LogUnavailable, LogOutOfReach."""
    if is_postgres_url(url):
        place = postgres_place_of(url)
        return bool(postgres_adapter("store.postgres.log").postgres_log_exists(place))
    return sqlite_path_of(url).exists()


def shown_url(url: str) -> str:
    """Returns the URL for people and logs: without the password that it may have."""
    return without_password(url) if is_postgres_url(url) else url


def postgres_place_of(url: str) -> PostgresPlace:
    """Returns the place that the URL names. Raises LogUrlMalformed."""
    place = place_of(url)
    if place is None:
        raise LogUrlMalformed(
            f"{without_password(url)!r} names no metadata log; write postgresql://user@host/database?schema=siltstone, "
            "with a schema of letters, digits and _"
        )
    return place


def postgres_adapter(module: str) -> ModuleType:
    """Loads a module of ``siltstone.metadata`` that needs psycopg, an optional dependency. Raises
    PostgresDriverMissing."""
    try:
        return import_module(f"siltstone.metadata.{module}")
    except ImportError as error:
        if (
            not (error.name or "").startswith("psycopg")
            and "psycopg" not in str(error)
            and "libpq" not in str(error)
        ):
            raise
        raise PostgresDriverMissing(
            "a metadata log in PostgreSQL needs psycopg; install it: pip install 'siltstone[postgres]'"
        ) from None


def sqlite_path_of(url: str) -> Path:
    """Returns the file that the URL names. Raises LogUrlMalformed."""
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc or not parts.path.startswith("/") or parts.path == "/":
        raise LogUrlMalformed(
            f"{url!r} names no metadata log; write sqlite:///absolute/path/metadata.sqlite, or "
            "postgresql://user@host/database?schema=siltstone"
        )
    return Path(unquote(parts.path))
