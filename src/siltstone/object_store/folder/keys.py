"""Where a key lies in a folder, and the keys of a folder in order.

A key is the path below the root. Names that begin with a dot belong to the store: ``.temporary`` and ``.uploads``.
A key cannot lie below another key, as a file is no directory; the keys of ``model.objects`` never do.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from siltstone.object_store.keys import checked_key
from siltstone.object_store.port import ObjectSummary

TEMPORARY = ".temporary"
UPLOADS = ".uploads"


def path_of_key(root: Path, key: str) -> Path:
    """Never outside the root, never in the store's own directories. Raises InvalidKey."""
    return root / checked_key(key)


def summary_of(key: str, status: os.stat_result) -> ObjectSummary:
    return ObjectSummary(key, status.st_size, status.st_mtime_ns // 1_000_000)


def walk(root: Path, prefix: str, after: str) -> Iterator[ObjectSummary]:
    """In key order, one directory in memory per level. What vanishes meanwhile is left out."""
    return _walk_directory(root, "", prefix, after)


def _walk_directory(directory: Path, above: str, prefix: str, after: str) -> Iterator[ObjectSummary]:
    for name in _sorted_names(directory):
        key = above + name
        if not _may_match(key, prefix) or not _may_follow(key, after):
            continue
        if name.endswith("/"):
            yield from _walk_directory(directory / name, key, prefix, after)
        elif status := status_of(directory / name):
            yield summary_of(key, status)


def _sorted_names(directory: Path) -> list[str]:
    """Directories end in a slash, so that they sort as their keys do: ``a-b`` before ``a/b``."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name + "/" if entry.is_dir() else entry.name for entry in entries]
    except FileNotFoundError:
        return []
    return sorted(name for name in names if not name.startswith("."))


def _may_match(key: str, prefix: str) -> bool:
    return key.startswith(prefix) or (key.endswith("/") and prefix.startswith(key))


def _may_follow(key: str, after: str) -> bool:
    return key > after or (key.endswith("/") and after.startswith(key))


def status_of(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
