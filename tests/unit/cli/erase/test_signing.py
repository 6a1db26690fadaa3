"""Signatures of reports."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from siltstone.cli.erase.signing import SigningKeyRefused, signature_of


def key_file(tmp_path: Path, kind: Any = Ed25519PrivateKey) -> Path:
    path = tmp_path / "key.pem"
    path.write_bytes(kind.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return path


def test_a_signature_has_64_bytes_and_is_always_the_same(tmp_path: Path) -> None:
    key = key_file(tmp_path)
    assert len(signature_of(b"report", key)) == 64
    assert signature_of(b"report", key) == signature_of(b"report", key) != signature_of(b"Report", key)


def test_other_keys_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SigningKeyRefused, match="another kind of key: make one by openssl genpkey"):
        signature_of(b"", key_file(tmp_path, X25519PrivateKey))
    (tmp_path / "text").write_text("no key")
    with pytest.raises(SigningKeyRefused, match="no private key in PEM"):
        signature_of(b"", tmp_path / "text")
    with pytest.raises(SigningKeyRefused, match="cannot be read"):
        signature_of(b"", tmp_path / "missing")
