"""The manifest of a backup of format 1: JSON that was written by hand from the layout."""

from pathlib import Path

from siltstone.backups.manifest import BackupManifest, decode_manifest, encode_manifest

STORED = bytes.fromhex((Path(__file__).parent / "golden" / "backup_manifest_v1.hex").read_text())
MANIFEST = BackupManifest(
    store_id="00112233445566778899aabbccddeeff",
    version=2**33,
    append_id="ffeeddccbbaa99887766554433221100",
    oldest=7,
    made_ms=1_700_000_000_000,
    buckets={0: "s3://flights/store", 1: "file:///data/second"},
    objects="file:///backups/objects",
    object_count=12,
    size_bytes=2**33 + 1,
)


def test_it_is_read_and_written_again() -> None:
    assert decode_manifest(STORED) == MANIFEST
    assert encode_manifest(MANIFEST) == STORED
