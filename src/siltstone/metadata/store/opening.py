"""Opens the metadata log that a URL names, such as ``sqlite:///absolute/path/metadata.sqlite``."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from siltstone.metadata.store.port import MetadataLog
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.model.errors import InvalidRequest


class LogUrlMalformed(InvalidRequest):
    """The URL names no metadata log."""


def open_log(url: str, *, create: bool = True) -> MetadataLog:
    """Opens the log; with ``create`` it is created if it does not exist. Raises LogUrlMalformed, LogNotFound,
    NotMetadataLog, LogVersionUnknown, LogUnavailable."""
    return SqliteLog(_path_of(url), create=create)


def log_exists(url: str) -> bool:
    """Whether there is a file at the path that the URL names. Raises LogUrlMalformed."""
    return _path_of(url).exists()


def _path_of(url: str) -> Path:
    parts = urlsplit(url)
    if parts.scheme != "sqlite" or parts.netloc or not parts.path.startswith("/") or parts.path == "/":
        raise LogUrlMalformed(f"{url!r} names no metadata log; write sqlite:///absolute/path/metadata.sqlite")
    return Path(unquote(parts.path))
