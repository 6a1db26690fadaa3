"""Opens a registry by its URL, or by the path of a folder.

A process shares one registry for each URL, because a task of Spark is one of many in its process, and an id that one of
them has asked for needs no second request.
"""

from pathlib import Path
from threading import Lock
from urllib.parse import unquote, urlsplit

from siltstone.value_formats.schemas.folder import FolderRegistry
from siltstone.value_formats.schemas.http import HttpRegistry
from siltstone.value_formats.schemas.port import Registry

SHARED_MAX = 16
"""Registries that a process keeps; a program uses one."""

_shared: dict[str, Registry] = {}
_lock = Lock()


def open_registry(place: str | Path) -> Registry:
    """``http://…``, ``https://…``, ``file:///folder``, or the path of a folder. Nothing is asked yet. Raises
    FormatRefused."""
    if isinstance(place, str) and "://" in place:
        parts = urlsplit(place)
        if parts.scheme != "file":
            return HttpRegistry(place)
        place = unquote(parts.path)
    return FolderRegistry(Path(place))


def shared_registry(url: str, shared_max: int = SHARED_MAX) -> Registry:
    """Returns the registry of this process for the URL. Beyond ``shared_max`` the oldest one is dropped."""
    with _lock:
        found = _shared.get(url)
        if found is None:
            if len(_shared) >= shared_max:
                _shared.pop(next(iter(_shared)))
            found = _shared[url] = open_registry(url)
        return found
