"""The path of a key in a folder, and the listing of a folder in key order.

A key is the path of its file below the root. Names that begin with a dot are the adapter's own: ``.temporary`` and
``.uploads``. No key can be a prefix directory of another key, because a file is not a directory; the keys of
``model.objects`` never are.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from siltstone.object_store.keys import checked_key
from siltstone.object_store.port import ObjectSummary

TEMPORARY = ".temporary"
UPLOADS = ".uploads"


def path_of_key(root: Path, key: str) -> Path:
    """Returns the path of a key, which is never outside the root or in the adapter's own directories. Raises
    InvalidKey."""
    return root / checked_key(key)


def summary_of(key: str, status: os.stat_result) -> ObjectSummary:
    return ObjectSummary(key, status.st_size, status.st_mtime_ns // 1_000_000)


def walk(root: Path, prefix: str, after: str) -> Iterator[ObjectSummary]:
    """Lists the objects in key order. Memory holds one directory per level. Files that are deleted meanwhile are left
    out."""
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
    """Returns the names in a directory, sorted. Names of directories get a slash, so that they sort like keys: ``a-b``
    before ``a/b``."""
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
