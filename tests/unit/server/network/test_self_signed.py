import builtins
import ssl
from pathlib import Path
from typing import Any

import pytest

from siltstone.foundation.certificates import certificate_of_pem
from siltstone.runtime.clock import SystemClock
from siltstone.server.network.listener_settings import ListenerSettings
from siltstone.server.network.self_signed import CertificateNotMade, own_certificate
from siltstone.server.network.tls import server_tls

NOW_MS = SystemClock().now_ms()
YEAR_MS = 366 * 86_400_000


def test_tl21_a_second_start_finds_the_same_certificate(tmp_path: Path) -> None:
    first = own_certificate(tmp_path / "tls", ["broker.example"], NOW_MS)
    content = [path.read_bytes() for path in (first.authority, first.certificate, first.key)]
    second = own_certificate(tmp_path / "tls", ["broker.example"], NOW_MS)
    assert second == first
    assert content == [path.read_bytes() for path in (second.authority, second.certificate, second.key)]
    assert first.key.stat().st_mode & 0o777 == 0o600
    hosts = certificate_of_pem(first.certificate.read_text()).hosts
    assert {"localhost", "127.0.0.1", "::1", "broker.example"} <= set(hosts)
    files = ListenerSettings(tls_certificate_file=str(first.certificate), tls_key_file=str(first.key))
    assert server_tls("SSL", files, NOW_MS).certificate.hosts == hosts
    ssl.create_default_context(cafile=str(first.authority)).verify_flags |= ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize(
    ("hosts", "later_ms", "says"),
    [
        (["other.example"], 0, "is not for other.example: delete it"),
        ([], YEAR_MS, "has expired: delete it"),
    ],
)
def test_one_that_does_not_suit_is_named(tmp_path: Path, hosts: list[str], later_ms: int, says: str) -> None:
    own_certificate(tmp_path, [], NOW_MS)
    with pytest.raises(CertificateNotMade, match=says):
        own_certificate(tmp_path, hosts, NOW_MS + later_ms)


def test_what_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broker.pem").write_text("nonsense")
    with pytest.raises(CertificateNotMade, match="cannot be used"):
        own_certificate(tmp_path, [], NOW_MS)
    (tmp_path / "file").write_text("")
    with pytest.raises(CertificateNotMade, match="cannot be written"):
        own_certificate(tmp_path / "file" / "tls", [], NOW_MS)
    imported = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CertificateNotMade, match=r"pip install 'siltstone\[tls\]'"):
        own_certificate(tmp_path / "tls", [], NOW_MS)
