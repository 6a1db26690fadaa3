import logging
import ssl

import pytest

from siltstone.runtime.clock import ManualClock
from siltstone.server.network.handshakes import HandshakeFailure, Handshakes, failure_of
from siltstone.server.network.principal_mapping import NoPrincipal


def said_by_openssl(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, f"[SSL: {reason}] x (_ssl.c:1)")
    error.reason = reason
    return error


@pytest.mark.parametrize(
    ("trouble", "failure", "says"),
    [
        (said_by_openssl("HTTP_REQUEST"), HandshakeFailure.NOT_TLS, "set security.protocol=SSL"),
        (said_by_openssl("WRONG_VERSION_NUMBER"), HandshakeFailure.NOT_TLS, "speaks no TLS"),
        (said_by_openssl("UNSUPPORTED_PROTOCOL"), HandshakeFailure.VERSION, "(unsupported protocol)"),
        (
            said_by_openssl("PEER_DID_NOT_RETURN_A_CERTIFICATE"),
            HandshakeFailure.NO_CERTIFICATE,
            "requires one",
        ),
        (said_by_openssl("TLSV1_ALERT_UNKNOWN_CA"), HandshakeFailure.NOT_TRUSTED, "set ssl.ca.location"),
        (said_by_openssl("A_NEW_ONE"), HandshakeFailure.OTHER, "(a new one)"),
        (ConnectionAbortedError("SSL handshake is taking longer"), HandshakeFailure.TIMED_OUT, "in time"),
        (ConnectionResetError(), HandshakeFailure.LEFT, "left"),
        (NoPrincipal("no rule fits"), HandshakeFailure.NO_PRINCIPAL, "no rule fits"),
        (KeyError("x"), HandshakeFailure.OTHER, "failed"),
    ],
)
def test_why_it_failed_in_words_for_operators(
    trouble: Exception, failure: HandshakeFailure, says: str
) -> None:
    found, words = failure_of(trouble)
    assert found is failure and says in words


def test_a_line_a_minute_for_each_reason_and_host(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    handshakes = Handshakes(clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            for host in ("10.0.0.1", "10.0.0.2"):
                handshakes.failed("SSL", host, HandshakeFailure.TIMED_OUT, "too late")
            handshakes.failed("SSL", "10.0.0.1", HandshakeFailure.LEFT, "left")
        clock.advance_ms(60_000)
        handshakes.crowded("SSL", "10.0.0.1")
        handshakes.failed("SSL", "10.0.0.1", HandshakeFailure.TIMED_OUT, "too late")
    assert len(caplog.records) == 4
    handshakes.succeeded(20)
    statistics = handshakes.statistics(5)
    assert statistics.failures == {
        HandshakeFailure.TIMED_OUT: 7,
        HandshakeFailure.LEFT: 3,
        HandshakeFailure.CROWDED: 1,
    }
    assert (statistics.under_way, statistics.seconds.count, statistics.seconds.total) == (5, 1, 0.02)
