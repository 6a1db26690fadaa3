"""Makes the TLS side of a listener from its settings: the context of its handshakes, after its files were checked.

A context is never changed: new files make a new one (``certificates``), because a changed context would keep the
authorities that were removed, and let sessions resume that were started under them. It issues no tickets of TLS 1.3: to
a client that closes without reading them the kernel answers with a reset, and the last requests would be lost.
"""

import hashlib
import ssl
from pathlib import Path

import msgspec

from siltstone.foundation.certificates import Certificate, certificate_of_der, der_of_pem
from siltstone.model.access import ANONYMOUS, Principal
from siltstone.runtime.secret_sources import SecretNotReadable, read_secret_file
from siltstone.server.network.listener_settings import (
    CertificateWanted,
    InvalidListenerSetting,
    ListenerSettings,
    TlsVersion,
)
from siltstone.server.network.principal_mapping import MappingRule, parse_mapping_rules, principal_of

FILE_BYTES_MAX = 1 << 20
"""A certificate with its chain takes some KiB, the authorities of an operating system 250."""

_VERIFY = {
    CertificateWanted.NONE: ssl.CERT_NONE,
    CertificateWanted.REQUESTED: ssl.CERT_OPTIONAL,
    CertificateWanted.REQUIRED: ssl.CERT_REQUIRED,
}
_VERSIONS = {TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3}


class ServerTls(msgspec.Struct, frozen=True, eq=False):
    """What new connections of one listener get. ``fingerprint`` is of the bytes of all files; ``rules`` make principals
    of the certificates of clients. ``channel``: the hash of the certificate that these connections show, by which nodes
    notice what stands between them."""

    context: ssl.SSLContext
    certificate: Certificate
    fingerprint: bytes
    rules: tuple[MappingRule, ...]
    channel: bytes = b""

    def principal_of(self, certificate_der: bytes | None) -> Principal:
        """Returns the principal of a client with this certificate. Raises NoPrincipal."""
        if not certificate_der:
            return ANONYMOUS
        return principal_of(certificate_of_der(certificate_der).owner, self.rules)


def server_tls(listener: str, settings: ListenerSettings, now_ms: int) -> ServerTls:
    """Reads and checks the files of a listener with TLS. Raises InvalidListenerSetting, which names the listener, the
    setting and the file."""
    place = f"listener.{listener}"
    for name in ("tls_certificate_file", "tls_key_file"):
        if not getattr(settings, name):
            raise InvalidListenerSetting(
                f"{place}.{name} is missing: a listener with TLS has a certificate and a key, in PEM; siltstone serve "
                "--tls-self-signed makes both for a first try"
            )
    fingerprint = fingerprint_of(listener, settings)
    der = _certificate_bytes(place, settings.tls_certificate_file)
    certificate = _checked_certificate(place, settings.tls_certificate_file, der, now_ms)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.minimum_version = _VERSIONS[settings.tls_version_min]
    _load_pair(place, settings, context)
    _load_authorities(place, settings, context)
    if settings.tls_ciphers:
        try:
            context.set_ciphers(settings.tls_ciphers)
        except ssl.SSLError as wrong:
            raise InvalidListenerSetting(
                f"{place}.tls_ciphers: OpenSSL knows none of {settings.tls_ciphers!r}; it concerns TLS 1.2 alone"
            ) from wrong
    rules = parse_mapping_rules(settings.tls_principal_mapping_rules)
    return ServerTls(context, certificate, fingerprint, rules, channel_of(der))


def channel_of(certificate_der: bytes | None) -> bytes:
    """Returns what binds a proof to a connection on which the listener has shown this certificate; None: no TLS."""
    return hashlib.sha256(certificate_der).digest() if certificate_der else b""


def peer_context(listener: str, settings: ListenerSettings) -> ssl.SSLContext:
    """Returns the context of a node that calls this listener of other nodes. It trusts every certificate, because the
    proof that follows names the one that was shown (``broker.security.sasl.node``). A listener that wants certificates
    of its clients gets the node's own. Raises InvalidListenerSetting."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = _VERSIONS[settings.tls_version_min]
    if settings.tls_client_auth is not CertificateWanted.NONE:
        _load_pair(f"listener.{listener}", settings, context)
    return context


def fingerprint_of(listener: str, settings: ListenerSettings) -> bytes:
    """Returns a hash of the bytes of all files of a listener. Raises InvalidListenerSetting."""
    digest = hashlib.sha256()
    for name in ("tls_certificate_file", "tls_key_file", "tls_key_password_file", "tls_client_ca_file"):
        if file := getattr(settings, name):
            is_secret = name in {"tls_key_file", "tls_key_password_file"}
            content = read_file(f"listener.{listener}.{name}", Path(file), is_secret=is_secret)
            digest.update(hashlib.sha256(content).digest())
    return digest.digest()


def read_file(setting: str, path: Path, *, is_secret: bool) -> bytes:
    """Reads a file that a setting names; a secret one must not be readable by every user of the machine. Raises
    InvalidListenerSetting."""
    try:
        if is_secret:
            return read_secret_file(path, setting, FILE_BYTES_MAX)
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except SecretNotReadable as refusal:
        raise InvalidListenerSetting(str(refusal)) from refusal
    except OSError as trouble:
        raise InvalidListenerSetting(f"{setting}: {path} cannot be read: {trouble.strerror}") from trouble
    if len(content) > FILE_BYTES_MAX:
        raise InvalidListenerSetting(
            f"{setting}: {path} has more than {FILE_BYTES_MAX} bytes: name another file"
        )
    return content


def _certificate_bytes(place: str, file: str) -> bytes:
    setting = f"{place}.tls_certificate_file"
    text = read_file(setting, Path(file), is_secret=False).decode("ascii", "replace")
    try:
        return der_of_pem(text)
    except ValueError as damage:
        raise InvalidListenerSetting(f"{setting}: {file}: {damage}") from damage


def _checked_certificate(place: str, file: str, der: bytes, now_ms: int) -> Certificate:
    setting = f"{place}.tls_certificate_file"
    try:
        certificate = certificate_of_der(der)
    except ValueError as damage:
        raise InvalidListenerSetting(f"{setting}: {file}: {damage}") from damage
    if certificate.not_after_ms <= now_ms:
        raise InvalidListenerSetting(f"{setting}: the certificate in {file} has expired: renew it")
    if certificate.not_before_ms > now_ms:
        raise InvalidListenerSetting(
            f"{setting}: the certificate in {file} is not valid yet: look at this machine's clock"
        )
    return certificate


def _load_pair(place: str, settings: ListenerSettings, context: ssl.SSLContext) -> None:
    def password() -> str:
        """Without a password OpenSSL would ask for it at the terminal."""
        if not settings.tls_key_password_file:
            return ""
        setting, path = f"{place}.tls_key_password_file", Path(settings.tls_key_password_file)
        return read_file(setting, path, is_secret=True).decode("utf-8", "replace").rstrip("\r\n")

    try:
        context.load_cert_chain(settings.tls_certificate_file, settings.tls_key_file, password)
    except ssl.SSLError as wrong:
        raise InvalidListenerSetting(f"{place}.tls_key_file: {_why_no_pair(settings, wrong)}") from wrong
    except OSError as trouble:  # a file was taken away since it was looked at
        raise InvalidListenerSetting(
            f"{place}.tls_key_file: {settings.tls_key_file} or {settings.tls_certificate_file} cannot be read: "
            f"{trouble.strerror}"
        ) from trouble


def _why_no_pair(settings: ListenerSettings, wrong: ssl.SSLError) -> str:
    if wrong.reason == "KEY_VALUES_MISMATCH":
        return f"{settings.tls_key_file} is not the key of the certificate in {settings.tls_certificate_file}"
    if b"ENCRYPTED" in Path(settings.tls_key_file).read_bytes():
        return (
            f"{settings.tls_key_file} is encrypted, and "
            + (
                f"the password in {settings.tls_key_password_file} does not open it"
                if settings.tls_key_password_file
                else "tls_key_password_file names no file with its password"
            )
        )  # fmt: skip
    return (
        f"{settings.tls_key_file} and {settings.tls_certificate_file} are not a key and a certificate in PEM "
        f"({(wrong.reason or 'no PEM').lower().replace('_', ' ')})"
    )


def _load_authorities(place: str, settings: ListenerSettings, context: ssl.SSLContext) -> None:
    if settings.tls_client_ca_file:
        try:
            context.load_verify_locations(settings.tls_client_ca_file)
        except ssl.SSLError as wrong:
            raise InvalidListenerSetting(
                f"{place}.tls_client_ca_file: {settings.tls_client_ca_file} has no certificate in PEM"
            ) from wrong
    context.verify_mode = _VERIFY[settings.tls_client_auth]
