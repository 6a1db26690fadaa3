"""Signatures of reports."""

import subprocess
from pathlib import Path

import pytest

from siltstone.cli.erase.signing import SigningKeyRefused, signature_of


def key_file(tmp_path: Path, algorithm: str) -> Path:
    path = tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "genpkey", "-algorithm", algorithm, "-out", path], check=True, capture_output=True
    )
    return path


def test_a_signature_has_64_bytes_and_is_always_the_same(tmp_path: Path) -> None:
    key = key_file(tmp_path, "ed25519")
    assert len(signature_of(b"report", key)) == 64
    assert signature_of(b"report", key) == signature_of(b"report", key) != signature_of(b"Report", key)


def test_other_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SigningKeyRefused, match="another kind of key: make one by openssl genpkey"):
        signature_of(b"", key_file(tmp_path, "x25519"))
    (tmp_path / "text").write_text("no key")
    with pytest.raises(SigningKeyRefused, match="no private key in PEM"):
        signature_of(b"", tmp_path / "text")
    with pytest.raises(SigningKeyRefused, match="cannot be read"):
        signature_of(b"", tmp_path / "missing")
