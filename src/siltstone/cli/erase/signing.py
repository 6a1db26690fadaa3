"""Reports of erasures as files, with a signature that shows others that nobody has changed them.

The signature is Ed25519 (RFC 8032) over the bytes of the report, and stands beside it in a file of its own. The key is
the user's, a PEM file as ``openssl genpkey -algorithm ed25519`` makes it; anybody with the public key can check by

    openssl pkeyutl -verify -pubin -inkey public.pem -rawin -in report.json -sigfile report.json.sig
"""

from pathlib import Path
from typing import Any

import click
import msgspec

from siltstone.maintenance.erasure.report import ErasureReport
from siltstone.model.errors import InvalidRequest
from siltstone.runtime.files import replace_file

SIGNATURE_SUFFIX = ".sig"


class SigningKeyRefused(InvalidRequest):
    """The key cannot sign a report. The text says why."""


def sign_option(command: Any) -> Any:
    """Adds --report and --sign-with; the command receives them as ``out`` and ``signing_key``."""
    options = (
        click.option(
            "--report", "out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
            help="Write the report to this file, as JSON.",
        ),
        click.option(
            "--sign-with", "signing_key", type=click.Path(path_type=Path, dir_okay=False), metavar="PEM",
            help="Sign the report with this Ed25519 key, into FILE.sig.",
        ),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def refuse_key_without_file(out: Path | None, signing_key: Path | None) -> None:
    if signing_key is not None and out is None:
        raise click.UsageError("--sign-with signs the file of the report: add --report FILE.")


def write_report(report: ErasureReport, out: Path, signing_key: Path | None) -> None:
    """Writes the report, and its signature if there is a key. Raises SigningKeyRefused."""
    data = msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
    signature = None if signing_key is None else signature_of(data, signing_key)
    replace_file(out, data)
    if signature is not None:
        replace_file(out.with_name(out.name + SIGNATURE_SUFFIX), signature)


def signature_of(data: bytes, signing_key: Path) -> bytes:
    """Returns the 64 bytes of the signature. Raises SigningKeyRefused."""
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415
    except ImportError:
        raise SigningKeyRefused(
            "a signature needs the package cryptography: pip install 'siltstone[tls]'"
        ) from None
    try:
        key = load_pem_private_key(signing_key.read_bytes(), password=None)
    except OSError as trouble:
        raise SigningKeyRefused(f"{signing_key} cannot be read: {trouble.strerror}") from trouble
    except (ValueError, TypeError) as trouble:
        raise SigningKeyRefused(f"{signing_key} is no private key in PEM without a password") from trouble
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningKeyRefused(
            f"{signing_key} is another kind of key: make one by openssl genpkey -algorithm ed25519"
        )
    return key.sign(data)
