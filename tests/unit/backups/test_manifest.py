"""The manifest of a backup: what is written is read, and what is damaged or newer is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.backups.manifest import BackupManifest, DamagedBackup, decode_manifest, encode_manifest

GOLDEN = (
    b'{"format":1,"store_id":"ab","version":7,"append_id":"cd","oldest":3,"made_ms":1700000000000,'
    b'"buckets":{"0":"s3://b"},"objects":"file:///o","object_count":2,"size_bytes":9}'
)
MANIFEST = BackupManifest("ab", 7, "cd", 3, 1_700_000_000_000, {0: "s3://b"}, "file:///o", 2, 9)


def test_the_bytes_are_these() -> None:
    assert encode_manifest(MANIFEST) == GOLDEN
    assert decode_manifest(GOLDEN) == MANIFEST


@given(st.builds(BackupManifest, buckets=st.dictionaries(st.integers(0, 2**31), st.text())))
def test_what_is_written_is_read(manifest: BackupManifest) -> None:
    assert decode_manifest(encode_manifest(manifest)) == manifest


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        GOLDEN[:-1],
        GOLDEN.replace(b"7,", b'"7",'),
        b"\xff",
        GOLDEN.replace(b'"format":1', b'"format":2'),
    ],
)
def test_what_is_damaged_or_newer_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedBackup):
        decode_manifest(data)
