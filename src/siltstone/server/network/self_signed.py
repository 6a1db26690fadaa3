"""Makes a certificate of our own for a first try of TLS, in files that stay: the second start finds them.

    FOLDER/ca.pem           what clients have to trust
    FOLDER/broker.pem       the certificate for this machine, issued by it
    FOLDER/broker-key.pem   its key, for this user alone

The key of the authority is thrown away at once, so nobody can issue another certificate that these clients would
trust. Needs the extra ``tls``: OpenSSL's own program is missing on many machines, and Python's ``ssl`` issues nothing.
"""

import os
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from socket import gethostname
from typing import TYPE_CHECKING, Any

import msgspec

from siltstone.foundation.certificates import certificate_of_pem
from siltstone.model.errors import InvalidRequest
from siltstone.server.network.addresses import is_ip

if TYPE_CHECKING:
    from cryptography import x509

TLS_FOLDER = "tls"
"""Below the folder of a store."""

VALID_DAYS = 365
HOSTS = ("localhost", "127.0.0.1", "::1")


class CertificateNotMade(InvalidRequest):
    """No certificate of our own can be made, or the one that is there cannot be used."""


class OwnCertificate(msgspec.Struct, frozen=True):
    """The files of a certificate that was made here."""

    authority: Path
    certificate: Path
    key: Path

    def settings_of(self, listener: str) -> dict[str, str]:
        """Returns the settings with which a listener uses them."""
        return {
            f"listener.{listener}.tls_certificate_file": str(self.certificate),
            f"listener.{listener}.tls_key_file": str(self.key),
        }


def own_certificate(folder: Path, hosts: Collection[str], clock_ms: int) -> OwnCertificate:
    """Returns the files in ``folder``, which are made if they are missing: a certificate for this machine and for
    ``hosts``. One that is there must be for ``hosts``; this machine may have another name since, as containers do.
    Raises CertificateNotMade."""
    files = OwnCertificate(folder / "ca.pem", folder / "broker.pem", folder / "broker-key.pem")
    wanted = tuple(dict.fromkeys((*HOSTS, *filter(None, hosts))))
    if files.certificate.exists():
        _refuse_unusable(files, wanted, clock_ms)
        return files
    wanted = tuple(dict.fromkeys((*wanted, gethostname())))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in _made(files, wanted, clock_ms):
            opened = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if path == files.key else 0o644
            )
            with os.fdopen(opened, "wb") as file:
                file.write(content)
    except OSError as trouble:
        raise CertificateNotMade(f"{trouble.filename} cannot be written: {trouble.strerror}") from trouble
    return files


def _refuse_unusable(files: OwnCertificate, wanted: Collection[str], clock_ms: int) -> None:
    try:
        certificate = certificate_of_pem(files.certificate.read_text("ascii"))
    except (OSError, ValueError) as damage:
        raise CertificateNotMade(f"{files.certificate} cannot be used ({damage}): delete it") from damage
    missing = set(wanted) - set(certificate.hosts)
    if missing or certificate.not_after_ms <= clock_ms:
        reason = f"is not for {', '.join(sorted(missing))}" if missing else "has expired"
        raise CertificateNotMade(
            f"the certificate in {files.certificate} {reason}: delete it, and a new one is made; clients then need "
            f"the new {files.authority.name}"
        )


def _made(files: OwnCertificate, hosts: Collection[str], clock_ms: int) -> list[tuple[Path, bytes]]:
    """Returns the content of each file; that of the certificate, which says that all are there, is the last."""
    try:
        from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    except ImportError as missing:
        raise CertificateNotMade(
            "a certificate of our own needs the package cryptography: pip install 'siltstone[tls]'"
        ) from missing
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    begins = datetime.fromtimestamp(clock_ms / 1000, UTC) - timedelta(hours=1)
    authority = _certificate("Siltstone, made here", None, authority_key, authority_key, begins, ())
    certificate = _certificate("siltstone", authority, authority_key, key, begins, hosts)
    pem = serialization.Encoding.PEM
    hidden = serialization.NoEncryption()
    return [
        (files.key, key.private_bytes(pem, serialization.PrivateFormat.PKCS8, hidden)),
        (files.authority, authority.public_bytes(pem)),
        (files.certificate, certificate.public_bytes(pem)),
    ]


def _certificate(
    name: str,
    issuer: "x509.Certificate | None",
    issuer_key: Any,
    key: Any,
    begins: datetime,
    hosts: Collection[str],
) -> "x509.Certificate":
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    is_authority = issuer is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=VALID_DAYS))
        .add_extension(
            x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None), critical=True
        )
        .add_extension(_key_usage(is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if hosts:
        names = [x509.IPAddress(ip_address(host)) if is_ip(host) else x509.DNSName(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        builder = builder.add_extension(usage, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _key_usage(is_authority: bool) -> "x509.KeyUsage":
    from cryptography import x509  # noqa: PLC0415

    return x509.KeyUsage(
        digital_signature=not is_authority, key_cert_sign=is_authority, crl_sign=is_authority,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
