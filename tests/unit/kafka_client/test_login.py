"""Our client's login against the server's rules, and against servers that do not prove themselves."""

import base64
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from siltstone.broker.security.sasl.plain import TokenRefused, password_claim
from siltstone.broker.security.sasl.scram import ScramExchange
from siltstone.kafka_client.client_settings import ClientSettings
from siltstone.kafka_client.failures import BrokerNotProved, LoginRefused, MechanismNotOffered
from siltstone.kafka_client.login import log_in
from siltstone.kafka_protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from siltstone.kafka_protocol.notation import Message
from siltstone.model.access import LoginMechanism, SecurityProtocol
from siltstone.model.secret import Secret
from siltstone.runtime.randomness import seeded_randomness
from support.security.credentials import credential

SETTINGS = ClientSettings(
    protocol=SecurityProtocol.SASL_SSL, username="a,d=a", password=Secret("pencil"),
)  # fmt: skip
SCRAM = [LoginMechanism.SCRAM_SHA_256, LoginMechanism.SCRAM_SHA_512]


class Server:
    """A broker that has one user. ``spoil`` changes what it sends, by the number of its message."""

    def __init__(
        self, mechanism: LoginMechanism, spoil: Callable[[int, bytes], bytes] = lambda _, sent: sent
    ) -> None:
        self._spoil = spoil
        self.asked = 0
        self.user = ""
        self._scram = mechanism.scram and ScramExchange(
            mechanism.scram, lambda _, each: credential("pencil", each), "ours"
        )

    def ask(self, request: Message, answer: type[Message]) -> Message:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=[request.mechanism])
        assert isinstance(request, SaslAuthenticateRequest)
        self.asked += 1
        try:
            sent = self._step(bytes(request.auth_bytes))
        except TokenRefused:
            return SaslAuthenticateResponse(error_code=58, error_message="no")
        return SaslAuthenticateResponse(auth_bytes=self._spoil(self.asked, sent), session_lifetime_ms=7_000)

    def _step(self, token: bytes) -> bytes:
        if self._scram is None:
            self.user = password_claim(token).user
            return b""
        sent = self._scram.first(token) if self.asked == 1 else self._scram.final(token)
        self.user = self._scram.user
        return sent


def by(mechanism: LoginMechanism, server: Server, password: str = "pencil") -> int:
    settings = replace(SETTINGS, mechanism=mechanism, password=Secret(password))
    return log_in(settings, "b:1", server.ask, seeded_randomness(7))


@pytest.mark.parametrize("mechanism", [*SCRAM, LoginMechanism.PLAIN])
def test_sa23_each_mechanism(mechanism: LoginMechanism) -> None:
    server = Server(mechanism)
    assert by(mechanism, server) == 7_000
    assert server.user == "a,d=a"


@pytest.mark.parametrize("mechanism", SCRAM)
def test_sa23_a_wrong_password_is_refused_and_not_shown(mechanism: LoginMechanism) -> None:
    with pytest.raises(LoginRefused, match="refuses the login of a,d=a") as refused:
        by(mechanism, Server(mechanism), "w-r-o-n-g")
    assert "w-r-o-n-g" not in str(refused.value)


@pytest.mark.parametrize("mechanism", SCRAM)
def test_sa25_a_server_that_does_not_know_the_password_is_refused(mechanism: LoginMechanism) -> None:
    false = base64.b64encode(bytes(mechanism.scram.key_bytes))
    for last in (b"v=" + false, b"", b"v=", b"e=other-error", b"\xff"):
        server = Server(mechanism, lambda number, sent, last=last: sent if number == 1 else last)
        with pytest.raises(BrokerNotProved):
            by(mechanism, server)


@pytest.mark.parametrize(
    "challenge",
    [
        "r=NONCE,s=AAAA,i=4096", "r=other,s=AAAA,i=4096", "r=NONCEours,s=!,i=4096", "r=NONCEours,s=AAAA,i=4095",
        "r=NONCEours,s=AAAA,i=2147483648", "r=NONCEours,s=AAAA,i=-1", "r=NONCEours,s=AAAA,i=", "r=NONCEours,s=AAAA",
        "", "m=x,r=NONCEours,s=AAAA,i=4096", "r=NONCEours,s=AAAA,i=٤٠٩٦",
    ],
)  # fmt: skip
def test_sa25_challenges_that_are_refused_at_once(challenge: str) -> None:
    def spoiled(number: int, sent: bytes) -> bytes:
        nonce = sent.decode().split(",")[0][2:].removesuffix("ours")
        return challenge.replace("NONCE", nonce).encode()

    server = Server(LoginMechanism.SCRAM_SHA_512, spoiled)
    with pytest.raises(BrokerNotProved):
        by(LoginMechanism.SCRAM_SHA_512, server)
    assert server.asked == 1, "no proof was sent"


@pytest.mark.parametrize(
    ("code", "says"),
    [(33, "set sasl.mechanism to one of PLAIN"), (34, "has no login: set security.protocol to SSL")],
)
def test_a_listener_that_offers_something_else(code: int, says: str) -> None:
    def ask(request: Message, answer: type[Message]) -> Message:
        return SaslHandshakeResponse(error_code=code, mechanisms=["PLAIN"])

    with pytest.raises(MechanismNotOffered, match=says):
        log_in(SETTINGS, "b:1", ask, seeded_randomness(7))
