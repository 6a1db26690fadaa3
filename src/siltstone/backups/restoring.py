"""Restores a store from a backup at a new place: ``siltstone restore FROM``.

The place has to be empty, both the folder and the bucket, so nothing that is newer is overwritten (rule 11), and the
original, which is only read, may run on. Objects are copied first; the file of the metadata is put in its place last,
so a restore that was interrupted has made no store, and is repeated with other places or after emptying these.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec.structs import replace

from siltstone.backups.manifest import (
    MANIFEST_FILE,
    METADATA_FILE,
    BackupManifest,
    DamagedBackup,
    decode_manifest,
)
from siltstone.backups.object_bucket import refuse_objects_of_another
from siltstone.backups.object_copying import CopiedObjects, OnCopied, copy_objects
from siltstone.backups.restored_image import RestoredLosses, losses, restored_image
from siltstone.foundation.quantity_words import counted
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.history import image_at, refuse_before_times, time_text, version_at
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry, LogPosition, encode_entry
from siltstone.metadata.records import KeySet
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.log_files import write_restored_log
from siltstone.metadata.store.opening import sqlite_path_of
from siltstone.metadata.store.postgres.place import is_postgres_url
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.metadata.store_id import RESTORED_KEY
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.object_store.port import ObjectStore
from siltstone.offline.erasures import LIST_PREFIX, Erasure, decode_erasure, erasures_of
from siltstone.offline.opening.settings import StoreSettings
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random, random_token

SHOWN_MAX = 5

log = logging.getLogger(__name__)


class RestoreRefused(InvalidRequest):
    """The place is not empty, or the point cannot be restored."""


class ObjectsNotKept(RestoreRefused):
    """Objects that the metadata names at the point were deleted since. ``object_ids``: which."""

    def __init__(self, object_ids: tuple[int, ...], topics: tuple[str, ...]) -> None:
        shown = ", ".join(topics[:SHOWN_MAX]) + (" and others" if len(topics) > SHOWN_MAX else "")
        super().__init__(
            f"{counted(len(object_ids), 'object')} of {shown or 'no topic'} at that point {_are(len(object_ids))} not "
            "kept any more: choose a later point, or a backup with objects. Destroyed objects are kept for "
            "sweep.grace_period_ms"
        )
        self.object_ids, self.topics = object_ids, topics


class RestoredStore(msgspec.Struct, frozen=True):
    """``version`` is that of the point, ``image`` the metadata of the restored store."""

    version: int
    image: MetadataImage
    objects: CopiedObjects
    losses: RestoredLosses


def read_manifest(folder: Path) -> BackupManifest:
    """Raises DamagedBackup."""
    try:
        return decode_manifest((folder / MANIFEST_FILE).read_bytes())
    except OSError as missing:
        raise DamagedBackup(
            f"{folder} is no complete backup: {MANIFEST_FILE} cannot be read ({missing.strerror})"
        ) from missing


def restore(
    folder: Path,
    settings: StoreSettings,
    target: ObjectStore,
    sources: Iterable[ObjectStore],
    clock: Clock,
    rng: Random,
    *,
    version: int | None = None,
    time_ms: int | None = None,
    erasures_from: Path | None = None,
    on_copied: OnCopied = lambda done, total: None,
) -> RestoredStore:
    """Makes the store of ``settings`` from the backup in a folder: at its newest version, at ``version``, or at
    ``time_ms``. ``target`` is the new store's bucket; ``sources`` are the buckets in which objects are looked for, the
    best first. What was erased from the original by its keys is to be erased again: erasures that are younger than the
    backup are in the buckets of the original, or in a newer backup, the folder ``erasures_from``.

    Raises RestoreRefused, ObjectsNotKept, DamagedBackup, VersionNotHeld, TimeNotHeld, and what the buckets
    raise."""
    manifest = read_manifest(folder)
    if is_postgres_url(settings.metadata):
        raise RestoreRefused(
            "a store is restored with its metadata in a file: move it by siltstone metadata copy afterwards"
        )
    metadata = sqlite_path_of(settings.metadata)
    _refuse_used(metadata, target)
    with closing(SqliteLog(folder / METADATA_FILE, create=False)) as copied_log:
        newest = image_at(copied_log)
        if newest.version != manifest.version or newest.append_id != manifest.append_id:
            raise DamagedBackup(
                f"the metadata in {folder} is at version {newest.version}, and {MANIFEST_FILE} says "
                f"{manifest.version}: use another backup"
            )
        if time_ms is not None:
            version = version_at(copied_log, time_ms)
            refuse_before_times(copied_log, version, time_ms)
        point = newest if version is None else image_at(copied_log, version)
    found = _usable(sources, manifest.store_id)
    made = restored_image(point, newest, _erasures(newest, found, erasures_from))
    objects = [made.objects[each] for each in sorted(made.objects)]
    copied = copy_objects(objects, lambda one: found, target, on_copied)
    if copied.missing:
        raise ObjectsNotKept(
            copied.missing, _topics_of(point, [made.objects[each] for each in copied.missing])
        )
    _write(metadata, made, manifest, point.version, clock, rng)
    return RestoredStore(point.version, made, copied, losses(point, newest))


def _erasures(newest: MetadataImage, sources: Sequence[ObjectStore], newer: Path | None) -> list[Erasure]:
    """Returns the erasures that this backup, the buckets and a newer backup know. Raises UnreadableErasure,
    DamagedBackup, and what the buckets raise."""
    found = {each.erasure_id: each for each in erasures_of(newest)}
    for source in sources:
        for summary in source.list(LIST_PREFIX):
            each = decode_erasure(source.get_range(summary.key, 0, summary.size_bytes))
            found.setdefault(each.erasure_id, each)
    if newer is not None:
        read_manifest(newer)
        with closing(SqliteLog(newer / METADATA_FILE, create=False)) as log_of_newer:
            for each in erasures_of(image_at(log_of_newer)):
                found.setdefault(each.erasure_id, each)
    return list(found.values())


def _usable(sources: Iterable[ObjectStore], store_id: str) -> list[ObjectStore]:
    """Returns the buckets that answer and have objects of the store. Raises RestoreRefused if there is none, with what
    is wrong with each."""
    found: list[ObjectStore] = []
    troubles: list[str] = []
    for source in sources:
        try:
            refuse_objects_of_another(source, store_id)
        except SiltstoneError as trouble:
            troubles.append(str(trouble))
            log.warning("objects are not looked for in %s: %s", source.url, trouble)
        else:
            found.append(source)
    if not found:
        raise RestoreRefused(
            f"there is no bucket to restore objects from: {'; '.join(troubles) or 'none is named'}; name one with "
            "--objects"
        )
    return found


def _refuse_used(metadata: Path, target: ObjectStore) -> None:
    """Raises RestoreRefused if there is anything at the place of the new store. Objects that an interrupted restore has
    left count, too: they may be of another point."""
    if metadata.exists():
        raise RestoreRefused(
            f"{metadata} exists: a store is restored into a new folder, and never over another"
        )
    first = next(iter(target.list()), None)
    if first is not None:
        raise RestoreRefused(
            f"{target.url} is not empty ({first.key} is there): name an empty bucket or prefix"
        )


def _topics_of(image: MetadataImage, objects: list[ObjectMetadata]) -> tuple[str, ...]:
    tags = (
        image.streams[held.stream_id].tags.get("topic", f"stream {held.stream_id}")
        for one in objects
        for held in one.ranges
    )
    return tuple(sorted(set(tags)))


def _write(
    metadata: Path, made: MetadataImage, manifest: BackupManifest, version: int, clock: Clock, rng: Random
) -> None:
    """Writes the log of the restored store: a snapshot, and one entry that says where it comes from."""
    origin = {
        "store": manifest.store_id, "version": version, "backup": time_text(manifest.made_ms),
        "restored": time_text(clock.now_ms()),
    }  # fmt: skip
    record = KeySet(RESTORED_KEY, msgspec.json.encode(origin))
    entry = LogEntry(random_token(rng), (record,), made.append_id)
    keys = made.keys.draft()
    keys[record.key] = record.value
    position = LogPosition(made.version + 1, entry.append_id)
    image = replace(made, version=position.version, append_id=position.append_id, keys=keys.frozen())
    write_restored_log(metadata, position, encode_entry(entry), encode_snapshot(image))


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
