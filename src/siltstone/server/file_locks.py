"""Whether the places of a node's files keep a second process out: a start on a network file system is refused.

The lock of the log's folder is the only fence of a log in files, and SQLite orders its writers by locks. On a network
file system a lock can be lost under a process that lives (``runtime.file_systems``): two processes would then write one
log, or one database, and destroy it. Commands that only read a store are not refused, so that what is there can be
copied to a disk.
"""

import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec

from siltstone.metadata.store.opening import sqlite_path_of
from siltstone.metadata.store.postgres.place import is_postgres_url
from siltstone.model.errors import InvalidRequest
from siltstone.runtime.file_systems import FileSystem, Locks, file_system_of
from siltstone.server.settings.node import NodeSettings

log = logging.getLogger(__name__)


class LocksNotKept(InvalidRequest):
    """A file that needs locks is on a network file system."""

    def __init__(self, place: "LockedPlace", file_system: FileSystem) -> None:
        super().__init__(
            f"{place.what} {place.path} is on a network file system ({file_system.type_name}, mounted at "
            f"{file_system.mount_point}), which can give its lock to a second process while the first one lives. "
            f"{place.instead}"
        )
        self.path = place.path
        self.file_system = file_system


class LockedPlace(msgspec.Struct, frozen=True):
    """``instead``: what an operator does about it."""

    what: str
    path: Path
    instead: str


def locked_places(settings: NodeSettings) -> Iterator[LockedPlace]:
    """The places of files whose locks a node on these settings relies on."""
    if settings.engine.wal.bucket_id is None:
        yield LockedPlace(
            "the write-ahead log in",
            settings.wal_folder,
            "Put it on a disk of this machine (--set wal_folder=FOLDER; copy a folder that exists there first), or "
            "into the bucket (--set engine.wal.location=bucket:0)",
        )
    if not is_postgres_url(settings.metadata):
        yield LockedPlace(
            "the metadata database",
            sqlite_path_of(settings.metadata),
            "Put it on a disk of this machine (--metadata sqlite:///FOLDER/metadata.sqlite; copy a file that exists "
            "there first), or into PostgreSQL (siltstone metadata copy), which nodes of several machines need",
        )


def refuse_lost_locks(settings: NodeSettings) -> None:
    """Logs a warning where it is not known whether locks are kept. Raises LocksNotKept."""
    for place in locked_places(settings):
        file_system = file_system_of(place.path)
        if file_system.locks is Locks.LOST:
            raise LocksNotKept(place, file_system)
        if file_system.locks is Locks.UNCERTAIN:
            log.warning(
                "%s %s is on a file system of type %s, mounted at %s: make sure that no other machine uses it, since "
                "its locks may not keep a second process out",
                place.what, place.path, file_system.type_name, file_system.mount_point,
            )  # fmt: skip
