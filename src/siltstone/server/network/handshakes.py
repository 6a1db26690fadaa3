"""The handshakes of TLS: counted and timed, and why one failed, in words for the log.

OpenSSL names the reason of a failure, and its names are not for operators: a client that speaks no TLS is a *wrong
version number*. Read next: ``accepting``, which begins and bounds handshakes.
"""

import logging
import ssl
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

import msgspec

from siltstone.foundation.histogram import Histogram, HistogramCounts
from siltstone.runtime.clock import Clock
from siltstone.runtime.log_limit import LogLimit
from siltstone.server.network.principal_mapping import NoPrincipal

log = logging.getLogger(__name__)


class HandshakeFailure(StrEnum):
    """Why a connection did not get beyond its handshake."""

    NOT_TLS = "not-tls"
    """The client spoke Kafka's protocol or HTTP without TLS."""
    VERSION = "version"
    """The client offered no version of TLS, or no cipher, that the listener takes."""
    NO_CERTIFICATE = "no-certificate"
    """The client showed no certificate, and the listener requires one."""
    CERTIFICATE = "certificate"
    """The client's certificate is not from an authority that the listener trusts, or has expired."""
    NO_PRINCIPAL = "no-principal"
    """No rule made a name of the client's certificate."""
    NOT_TRUSTED = "not-trusted"
    """The client refused the listener's certificate."""
    TIMED_OUT = "timed-out"
    CROWDED = "crowded"
    """More handshakes were under way than may be, and this one was the oldest."""
    LEFT = "left"
    """The client closed the connection."""
    OTHER = "other"


_OF_REASONS = {
    "HTTP_REQUEST": HandshakeFailure.NOT_TLS,
    "HTTPS_PROXY_REQUEST": HandshakeFailure.NOT_TLS,
    "WRONG_VERSION_NUMBER": HandshakeFailure.NOT_TLS,
    "UNSUPPORTED_PROTOCOL": HandshakeFailure.VERSION,
    "VERSION_TOO_LOW": HandshakeFailure.VERSION,
    "NO_SHARED_CIPHER": HandshakeFailure.VERSION,
    "TLSV1_ALERT_PROTOCOL_VERSION": HandshakeFailure.VERSION,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": HandshakeFailure.NO_CERTIFICATE,
    "CERTIFICATE_VERIFY_FAILED": HandshakeFailure.CERTIFICATE,
    "TLSV1_ALERT_UNKNOWN_CA": HandshakeFailure.NOT_TRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": HandshakeFailure.NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": HandshakeFailure.NOT_TRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": HandshakeFailure.NOT_TRUSTED,
}

_WORDS = {
    HandshakeFailure.NOT_TLS: "the client speaks no TLS, and this listener does: set security.protocol=SSL in the "
    "client, or give it the address of a plaintext listener",
    HandshakeFailure.VERSION: "the client offers no version of TLS and no cipher that this listener takes",
    HandshakeFailure.NO_CERTIFICATE: "the client shows no certificate, and this listener requires one: set "
    "ssl.certificate.location and ssl.key.location in the client",
    HandshakeFailure.CERTIFICATE: "the client's certificate is refused",
    HandshakeFailure.NOT_TRUSTED: "the client does not trust the certificate of this listener: set ssl.ca.location in "
    "the client to the certificate of its authority",
    HandshakeFailure.TIMED_OUT: "the client did not complete the handshake of TLS in time",
    HandshakeFailure.CROWDED: "too many handshakes of TLS were under way, and this was the oldest",
    HandshakeFailure.LEFT: "the client left during the handshake of TLS",
    HandshakeFailure.OTHER: "the handshake of TLS failed",
}

_QUIET = frozenset({HandshakeFailure.LEFT})
"""A balancer that only looks whether the port is open leaves at once, every few seconds."""


_OF_CERTIFICATES = frozenset(
    {HandshakeFailure.NO_CERTIFICATE, HandshakeFailure.CERTIFICATE, HandshakeFailure.NO_PRINCIPAL}
)

CertificateRefused = Callable[[str, str, str], None]
"""Is called with the name of the listener, the host, and the reason."""


def failure_of(trouble: BaseException) -> tuple[HandshakeFailure, str]:
    """Returns why a handshake failed, and the words for it."""
    if isinstance(trouble, NoPrincipal):
        return HandshakeFailure.NO_PRINCIPAL, str(trouble)
    if isinstance(trouble, ssl.SSLCertVerificationError):
        words = _WORDS[HandshakeFailure.CERTIFICATE]
        return HandshakeFailure.CERTIFICATE, f"{words}: {trouble.verify_message}"
    if isinstance(trouble, ssl.SSLError):
        failure = _OF_REASONS.get(trouble.reason or "", HandshakeFailure.OTHER)
        detail = (trouble.reason or str(trouble)).lower().replace("_", " ")
        words = _WORDS[failure]
        return failure, words if failure is HandshakeFailure.NOT_TLS else f"{words} ({detail})"
    if isinstance(trouble, ConnectionAbortedError | TimeoutError):  # asyncio's word for its time limit
        return HandshakeFailure.TIMED_OUT, _WORDS[HandshakeFailure.TIMED_OUT]
    if isinstance(trouble, OSError):
        return HandshakeFailure.LEFT, _WORDS[HandshakeFailure.LEFT]
    return HandshakeFailure.OTHER, f"{_WORDS[HandshakeFailure.OTHER]}: {trouble}"


class HandshakeStatistics(msgspec.Struct, frozen=True):
    """``seconds``: of handshakes that succeeded. ``failures`` counts the others by reason."""

    under_way: int
    seconds: HistogramCounts
    failures: dict[HandshakeFailure, int]


class Handshakes:
    """What became of the handshakes. The log has a line a minute for each reason and host. ``on_refused`` is called for
    each certificate that is refused."""

    def __init__(self, clock: Clock, on_refused: CertificateRefused = lambda *_: None) -> None:
        self._clock = clock
        self._on_refused = on_refused
        self._limit = LogLimit(clock)
        self._seconds = Histogram()
        self._failures: Counter[HandshakeFailure] = Counter()

    def succeeded(self, took_ms: float) -> None:
        self._seconds.observe(took_ms / 1000)

    def failed(self, listener: str, host: str, failure: HandshakeFailure, words: str) -> None:
        self._failures[failure] += 1
        if failure in _OF_CERTIFICATES:
            self._on_refused(listener, host, words)
        is_worth_it = failure not in _QUIET and self._limit.is_due((listener, host, failure))
        level = logging.WARNING if is_worth_it else logging.DEBUG
        log.log(level, "a connection from %s to listener %s closed: %s", host, listener, words)

    def crowded(self, listener: str, host: str) -> None:
        self.failed(listener, host, HandshakeFailure.CROWDED, _WORDS[HandshakeFailure.CROWDED])

    def statistics(self, under_way: int) -> HandshakeStatistics:
        return HandshakeStatistics(under_way, self._seconds.counts(), dict(self._failures))
