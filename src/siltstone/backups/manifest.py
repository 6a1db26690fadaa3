"""The file ``backup.json`` of a backup: one JSON object. Pure.

    {"format": 1, "store_id": "…", "version": 120, "append_id": "…", "oldest": 0,
     "made_ms": 1700000000000,
     "buckets": {"0": "s3://bucket/store"}, "objects": "file:///backups/objects", "object_count": 12,
     "size_bytes": 4096}

``version`` is the newest that the copy of the metadata has, ``oldest`` the oldest. ``objects`` is the bucket with
copies of the objects, empty if none were made; ``object_count`` and ``size_bytes`` count them. The file is written
last: a folder without it is no backup.
"""

import msgspec

from siltstone.model.errors import CorruptData

BACKUP_FORMAT = 1
MANIFEST_FILE = "backup.json"
METADATA_FILE = "metadata.sqlite"
"""The copy of the metadata log, in the folder of the backup."""


class DamagedBackup(CorruptData):
    """The backup is incomplete, or was made by a newer version of this program."""


class BackupManifest(msgspec.Struct, frozen=True):
    store_id: str
    version: int
    append_id: str
    oldest: int
    made_ms: int
    buckets: dict[int, str]
    objects: str = ""
    object_count: int = 0
    size_bytes: int = 0


class _Line(BackupManifest, frozen=True, kw_only=True):
    format: int


def encode_manifest(manifest: BackupManifest) -> bytes:
    return msgspec.json.encode({"format": BACKUP_FORMAT, **msgspec.structs.asdict(manifest)})


def decode_manifest(data: bytes) -> BackupManifest:
    """Raises DamagedBackup."""
    try:
        line = msgspec.json.decode(data, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError) as damage:
        raise DamagedBackup(f"{MANIFEST_FILE} cannot be read: {damage}; use another backup") from damage
    if line.format != BACKUP_FORMAT:
        raise DamagedBackup(
            f"{MANIFEST_FILE} has format {line.format}; this program reads {BACKUP_FORMAT}: use the version that "
            "made the backup"
        )
    fields = {name: getattr(line, name) for name in BackupManifest.__struct_fields__}
    return BackupManifest(**fields)
