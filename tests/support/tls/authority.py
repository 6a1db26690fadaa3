"""An authority that issues certificates for a test, in files as operators have them."""

import datetime
import ssl
from collections.abc import Sequence
from functools import cache
from ipaddress import ip_address
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
LOCAL = ("localhost", "127.0.0.1", "::1")

Name = Sequence[tuple[x509.ObjectIdentifier, str]]


class Pair(msgspec.Struct, frozen=True):
    """The files of a certificate and of its key."""

    certificate: Path
    key: Path

    def settings(self, listener: str = "SSL") -> dict[str, str]:
        return {
            f"listener.{listener}.tls_certificate_file": str(self.certificate),
            f"listener.{listener}.tls_key_file": str(self.key),
        }


@cache
def _key(_: str) -> ec.EllipticCurvePrivateKey:
    """Keys are made once: nothing in a test depends on a key of its own but its authority."""
    return ec.generate_private_key(ec.SECP256R1())


class Authority:
    """``file`` has its certificate, which clients trust."""

    def __init__(self, folder: Path, name: str = "Authority A") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._key = _key(name)
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.file = folder / f"{name.replace(' ', '-').lower()}.pem"
        issued = self._issued(self._name, self._key.public_key(), 30, is_authority=True, hosts=())
        self.file.write_bytes(issued.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        file: str,
        name: Name = ((NameOID.COMMON_NAME, "broker"),),
        *,
        hosts: Sequence[str] = LOCAL,
        days: float = 30,
        password: bytes | None = None,
    ) -> Pair:
        """Issues a certificate; with ``days`` below 0 it has expired. Files of that name are replaced."""
        key = _key(f"{file} of {self.file}")
        attributes = [x509.RelativeDistinguishedName([x509.NameAttribute(*each)]) for each in name]
        issued = self._issued(x509.Name(attributes), key.public_key(), days, is_authority=False, hosts=hosts)
        pair = Pair(self.folder / f"{file}.pem", self.folder / f"{file}-key.pem")
        write_pem(pair.certificate, issued.public_bytes(serialization.Encoding.PEM))
        hidden = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        write_pem(
            pair.key,
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden),
        )
        return pair

    def _issued(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePublicKey,
        days: float,
        *,
        is_authority: bool,
        hosts: Sequence[str],
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * DAY)
            .not_valid_after(now + days * DAY)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if hosts:
            names = [
                x509.IPAddress(ip_address(h)) if h[0].isdigit() or ":" in h else x509.DNSName(h)
                for h in hosts
            ]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """Makes the context of a client that trusts this authority."""
        context = ssl.create_default_context(cafile=str(self.file))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        return context


def write_pem(path: Path, content: bytes) -> None:
    """Writes as renewing programs do: another file takes the place of the one that may be open."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.chmod(0o640)
    new.replace(path)
