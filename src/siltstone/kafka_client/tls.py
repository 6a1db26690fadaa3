"""Connections with TLS to a broker, and why one cannot be made.

A failure of TLS is not repeated: it is wrong until a person corrects a file or a name. The name in the certificate
alone says that a server is the broker that was meant; so a certificate for other names is refused, and the error says
for which.
"""

import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from siltstone.foundation.certificates import certificate_of_der
from siltstone.kafka_client.client_settings import ClientSettings, InvalidClientConfig
from siltstone.kafka_client.failures import (
    BrokerNotTrusted,
    BrokerOfAnotherName,
    BrokerWithoutTls,
    ClientNotTrusted,
    TlsFailed,
)
from siltstone.runtime.secret_sources import SecretNotReadable, read_secret_file

_HOST_MISMATCHES = frozenset({62, 64})
"""OpenSSL: X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""

_NOT_TLS = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE"})
_CLIENT_REFUSED = frozenset({
    "TLSV13_ALERT_CERTIFICATE_REQUIRED", "SSLV3_ALERT_BAD_CERTIFICATE", "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_HANDSHAKE_FAILURE", "TLSV1_ALERT_UNKNOWN_CA",
})  # fmt: skip


def client_context(settings: ClientSettings) -> ssl.SSLContext:
    """Returns the context for all connections of one client. Raises InvalidClientConfig."""
    try:
        context = ssl.create_default_context(cafile=settings.authorities or None)
    except (OSError, ssl.SSLError) as wrong:
        raise InvalidClientConfig(
            f"ssl.ca.location: {settings.authorities} is not a file with certificates in PEM"
        ) from wrong
    # Python 3.13 refuses authorities without some extensions, which librdkafka and Java take; one file serves all.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = settings.checks_host
    if settings.certificate:
        try:
            read_secret_file(Path(settings.key), "ssl.key.location")
            # Without a password OpenSSL would ask for it at the terminal.
            context.load_cert_chain(settings.certificate, settings.key, settings.key_password.revealed)
        except SecretNotReadable as refusal:
            raise InvalidClientConfig(str(refusal)) from refusal
        except (OSError, ssl.SSLError) as wrong:
            raise InvalidClientConfig(
                f"ssl.certificate.location and ssl.key.location: {settings.certificate} and {settings.key} are not a "
                "certificate and its key in PEM, or ssl.key.password does not open the key"
            ) from wrong
    return context


def with_tls(
    context: ssl.SSLContext, plain: socket.socket, host: str, where: str, connect: Callable[[], socket.socket]
) -> ssl.SSLSocket:
    """Completes the handshake on a connected socket, within its time limit. ``connect`` makes another one, to see for
    which names a refused certificate is. Raises a subclass of TlsFailed, and OSError when the connection ends."""
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as wrong:
        plain.close()
        if wrong.verify_code not in _HOST_MISMATCHES:
            raise BrokerNotTrusted(
                f"the certificate of the broker at {where} is not trusted ({wrong.verify_message}): set "
                "ssl.ca.location to the certificate of the authority that issued it"
            ) from wrong
        names = ", ".join(_names_of(context, connect)) or "no name"
        raise BrokerOfAnotherName(
            f"the certificate of the broker at {where} is for {names} and not for {host}: connect to a name that it "
            "has, or have the broker advertise one"
        ) from wrong
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as ended:
        plain.close()
        raise ConnectionResetError("closed by the broker") from ended
    except ssl.SSLError as wrong:
        plain.close()
        raise failure_of(wrong, where) from wrong
    except OSError:
        plain.close()
        raise


def failure_of(wrong: ssl.SSLError, where: str) -> TlsFailed:
    """Returns the error for what OpenSSL says of a connection to ``where``."""
    reason = wrong.reason or ""
    if reason in _NOT_TLS:
        return BrokerWithoutTls(
            f"the server at {where} does not speak TLS: set security.protocol=PLAINTEXT, or connect to a listener "
            "with TLS"
        )
    if reason in _CLIENT_REFUSED:
        return ClientNotTrusted(
            f"the broker at {where} wants a certificate that it trusts: set ssl.certificate.location and "
            "ssl.key.location to one of an authority in its tls_client_ca_file"
        )
    detail = reason.lower().replace("_", " ") or str(wrong)
    return TlsFailed(f"the handshake of TLS with the broker at {where} failed ({detail}): look at its log")


def _names_of(context: ssl.SSLContext, connect: Callable[[], socket.socket]) -> tuple[str, ...]:
    """Connects once more, without asking for a name, to read for which names the certificate is. Nothing is sent."""
    checked = context.check_hostname
    context.check_hostname = False
    try:
        with connect() as plain, context.wrap_socket(plain) as wrapped:
            return certificate_of_der(wrapped.getpeercert(binary_form=True) or b"").hosts
    except (OSError, ValueError):
        return ()
    finally:
        context.check_hostname = checked
