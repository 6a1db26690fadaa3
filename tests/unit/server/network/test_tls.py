"""TL17: files that a listener with TLS cannot use are named with their setting."""

from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.model.access import ANONYMOUS
from siltstone.runtime.clock import SystemClock
from siltstone.server.network.listener_settings import (
    CertificateWanted,
    InvalidListenerSetting,
    ListenerSettings,
)
from siltstone.server.network.tls import FILE_BYTES_MAX, server_tls
from support.tls.authority import Authority


def checked(settings: ListenerSettings) -> str:
    """Returns the error's text; empty if the files can be used."""
    try:
        server_tls("EXTERNAL", settings, SystemClock().now_ms())
    except InvalidListenerSetting as refused:
        assert "\n" not in str(refused)
        return str(refused)
    return ""


def changed(authority: Authority, **fields: str) -> ListenerSettings:
    pair = authority.issue("broker")
    return ListenerSettings(
        **{"tls_certificate_file": str(pair.certificate), "tls_key_file": str(pair.key), **fields}
    )


def world_readable(path: Path) -> str:
    path.chmod(0o644)
    return str(path)


WRONG: dict[str, tuple[Callable[[Authority, Path], ListenerSettings], str]] = {
    "no certificate": (
        lambda a, _: changed(a, tls_certificate_file=""),
        "listener.EXTERNAL.tls_certificate_file is missing",
    ),
    "no key": (lambda a, _: changed(a, tls_key_file=""), "listener.EXTERNAL.tls_key_file is missing"),
    "missing": (
        lambda a, t: changed(a, tls_key_file=str(t / "none.pem")),
        "listener.EXTERNAL.tls_key_file: {tmp}/none.pem cannot be read: No such file",
    ),
    "world-readable": (
        lambda a, _: changed(a, tls_key_file=world_readable(a.issue("open").key)),
        "every user of this machine may read",
    ),
    "not the key": (
        lambda a, _: changed(a, tls_key_file=str(a.issue("other").key)),
        "other-key.pem is not the key of the certificate in",
    ),
    "no PEM": (
        lambda a, _: changed(a, tls_certificate_file=str(a.issue("x").key)),
        "x-key.pem: it has no certificate in PEM",
    ),
    "expired": (
        lambda a, _: changed(a, tls_certificate_file=str(a.issue("old", days=-1).certificate)),
        "listener.EXTERNAL.tls_certificate_file: the certificate in {authority}/old.pem has expired",
    ),
    "encrypted": (
        lambda a, _: changed(a, tls_key_file=str(a.issue("locked", password=b"secret").key)),
        "is encrypted, and tls_key_password_file names no file",
    ),
    "too large": (
        lambda a, t: changed(a, tls_certificate_file=large(t)),
        f"has more than {FILE_BYTES_MAX} bytes",
    ),
    "authorities": (
        lambda a, _: changed(a, tls_client_ca_file=str(a.issue("y").key)),
        "listener.EXTERNAL.tls_client_ca_file: {authority}/y-key.pem has no certificate",
    ),
    "ciphers": (
        lambda a, _: changed(a, tls_ciphers="NONE-OF-THEM"),
        "listener.EXTERNAL.tls_ciphers: OpenSSL knows none of",
    ),
}


def large(folder: Path) -> str:
    (folder / "large.pem").write_bytes(bytes(FILE_BYTES_MAX + 1))
    return str(folder / "large.pem")


@pytest.mark.parametrize("case", WRONG)
def test_tl17_wrong_files_are_named_with_their_setting(tmp_path: Path, case: str) -> None:
    authority = Authority(tmp_path / "a")
    make, says = WRONG[case]
    text = checked(make(authority, tmp_path))
    assert says.format(tmp=tmp_path, authority=tmp_path / "a") in text


def test_a_key_may_be_locked_and_read_by_a_group(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("broker", password=b"secret")
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o440)
    pair.key.chmod(0o440)
    files = {"tls_certificate_file": str(pair.certificate), "tls_key_file": str(pair.key)}
    assert checked(ListenerSettings(**files, tls_key_password_file=str(password))) == ""
    password.write_text("wrong\n")
    said = checked(ListenerSettings(**files, tls_key_password_file=str(password)))
    assert "the password in" in said and "wrong" not in said


def test_a_context_issues_no_tickets_and_a_client_without_certificate_is_anonymous(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = changed(authority, tls_client_ca_file=str(authority.file))
    made = server_tls("SSL", settings, SystemClock().now_ms())
    assert made.context.num_tickets == 0
    assert made.principal_of(None) == ANONYMOUS
    assert made.certificate.owner == "CN=broker"
    assert settings.tls_client_auth is CertificateWanted.NONE
