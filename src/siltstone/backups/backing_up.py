"""Makes a backup of a store while brokers run: ``siltstone backup TO``.

The metadata is copied first, then the objects that any of its versions names. A pin keeps them from the sweep while
they are copied. The manifest is written last, so a backup that was interrupted is none.
"""

from contextlib import closing
from pathlib import Path

import msgspec

from siltstone.backups.manifest import (
    MANIFEST_FILE,
    METADATA_FILE,
    BackupManifest,
    encode_manifest,
)
from siltstone.backups.object_bucket import claim_for_backups
from siltstone.backups.object_copying import CopiedObjects, OnCopied, buckets_of, copy_objects
from siltstone.foundation.credentials import without_url_credentials
from siltstone.metadata.applying import apply_records
from siltstone.metadata.commands import PinScan, UnpinScan
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.history import entries_after, image_at, oldest_entry, oldest_version
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.metadata.records import ObjectCommitted
from siltstone.metadata.store.log_files import ATTEMPTS_MAX, copy_log_entries, copy_sqlite_file
from siltstone.metadata.store.opening import sqlite_path_of
from siltstone.metadata.store.port import LogTruncated, LogUnavailable, MetadataLog
from siltstone.metadata.store.postgres.place import is_postgres_url
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import SCAN_PIN_MS_MAX
from siltstone.model.objects import ObjectState
from siltstone.object_store.port import ObjectStore
from siltstone.offline.context import MaintenanceContext, check_metadata_is_newest
from siltstone.offline.erasures import encode_erasure, erasures_of, list_key
from siltstone.offline.opening.settings import StoreSettings
from siltstone.offline.opening.store import open_metadata_log
from siltstone.runtime.clock import Clock
from siltstone.runtime.files import replace_file
from siltstone.runtime.randomness import random_token


class BackupRefused(InvalidRequest):
    """There is something at the place of the backup, or nothing to back up."""


def back_up(
    settings: StoreSettings,
    context: MaintenanceContext,
    folder: Path,
    objects: ObjectStore | None = None,
    on_copied: OnCopied = lambda done, total: None,
) -> tuple[BackupManifest, CopiedObjects | None]:
    """Makes a backup in a new folder; with ``objects``, a bucket, copies of the objects, too. Raises BackupRefused, and
    what the metadata and the buckets raise."""
    if folder.exists() and any(folder.iterdir()):
        raise BackupRefused(f"{folder} is not empty: name a new folder for each backup")
    token = None if objects is None or context.metadata.read_only_note else _pin(context)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        copy_metadata(settings, context.clock, folder / METADATA_FILE)
        with closing(SqliteLog(folder / METADATA_FILE, create=False)) as log:
            oldest, image = oldest_version(log), image_at(log)
            store_id = store_id_of(image)
            if store_id is None:
                raise BackupRefused(
                    f"the store at {settings.folder} was never used: there is nothing to back up"
                )
            copied = None
            if objects is not None:
                claim_for_backups(objects, store_id)
                named = objects_of_all_versions(log, oldest)
                copied = copy_objects(named, lambda one: buckets_of(context.buckets, one), objects, on_copied)
                for erasure in erasures_of(image):
                    listed = msgspec.structs.replace(erasure, verification=None)
                    objects.put(list_key(erasure.erasure_id), [encode_erasure(listed)])
                _refuse_missing(image, copied)
    finally:
        if token is not None:
            context.metadata.execute(UnpinScan(token))
    manifest = BackupManifest(
        store_id,
        image.version,
        image.append_id,
        oldest,
        context.now_ms(),
        {number: without_url_credentials(url) for number, url in context.buckets.urls.items()},
        "" if objects is None else without_url_credentials(objects.url),
        0 if copied is None else copied.count,
        0 if copied is None else copied.size_bytes,
    )
    replace_file(folder / MANIFEST_FILE, encode_manifest(manifest))
    return manifest, copied


def _pin(context: MaintenanceContext) -> str:
    """Keeps the objects that the metadata names from now on, for a day at most. A pin is an entry of the log, so an
    older copy of the metadata is refused first (rule 11)."""
    check_metadata_is_newest(context)
    token = random_token(context.rng)
    context.metadata.execute(PinScan(token, SCAN_PIN_MS_MAX, "siltstone backup"))
    return token


def copy_metadata(settings: StoreSettings, clock: Clock, target: Path) -> None:
    """Copies the metadata log, from SQLite or PostgreSQL, into a new file of SQLite's. Raises LogFileExists,
    LogDamaged, LogUnavailable."""
    if not is_postgres_url(settings.metadata):
        copy_sqlite_file(sqlite_path_of(settings.metadata), target)
        return
    with closing(open_metadata_log(settings, clock, create=False)) as log:
        for _ in range(ATTEMPTS_MAX):
            try:
                copy_log_entries(log, oldest_entry(log), target)
                return
            except LogTruncated:
                target.unlink()
    raise LogUnavailable("the metadata log dropped entries each time it was copied; try again later")


def objects_of_all_versions(log: MetadataLog, oldest: int) -> list[ObjectMetadata]:
    """Returns each object that any version from ``oldest`` on names as committed, as the newest version has it if it
    still does."""
    image = image_at(log, oldest)
    found = {object_id: one for object_id, one in image.objects.items() if one.state is ObjectState.COMMITTED}
    draft = ImageDraft(image)
    for version, entry in entries_after(log, oldest, log.head().version):
        draft.version = version
        apply_records(draft, entry.records)
        committed = [record.object_id for record in entry.records if isinstance(record, ObjectCommitted)]
        found |= {object_id: draft.objects[object_id] for object_id in committed}
    return [draft.objects.get(object_id, one) for object_id, one in sorted(found.items())]


def _refuse_missing(image: MetadataImage, copied: CopiedObjects) -> None:
    """An object that only earlier versions name may have been deleted since; one that is named now may not."""
    for object_id in copied.missing:
        one = image.objects.get(object_id)
        if one is not None and one.state is ObjectState.COMMITTED:
            raise BackupRefused(
                f"object {object_id} is in none of its buckets: siltstone check shows what is missing"
            )
