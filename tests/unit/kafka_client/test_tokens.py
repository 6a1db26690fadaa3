"""Where our client gets its tokens."""

import base64
from pathlib import Path
from typing import Any

import pytest

from siltstone.kafka_client.client_settings import ClientSettings, InvalidClientConfig, settings_of_mapping
from siltstone.kafka_client.failures import LoginRefused
from siltstone.kafka_client.login import log_in
from siltstone.kafka_client.tokens import TOKEN_BYTES_MAX, TokenNotObtained, TokenSource
from siltstone.kafka_protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeResponse
from siltstone.model.access import LoginMechanism
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.security.https_server import https_server
from support.tls.authority import Authority

LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
OIDC = {
    **LOGIN,
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
    "sasl.oauthbearer.client.id": "loader",
    "sasl.oauthbearer.client.secret": "pen:cil",
    "sasl.oauthbearer.scope": "kafka",
}
OF_FILE = "sasl.oauthbearer.token.file"


def made(given: dict[str, str]) -> ClientSettings:
    return settings_of_mapping(given, "the test")


def test_sa26_a_file_is_read_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    settings, source = made({**LOGIN, OF_FILE: str(file)}), TokenSource(ManualClock())
    with pytest.raises(TokenNotObtained, match="cannot be read"):
        source.token(settings)
    for token in ("a.b.c", "d.e.f"):
        file.write_text(f"{token}\n")
        assert source.token(settings) == token
    for content in (b"", b"\n", b"a b", b"a\nb", b"\xff", b"a" * (TOKEN_BYTES_MAX + 1)):
        file.write_bytes(content)
        with pytest.raises(TokenNotObtained):
            source.token(settings)


def test_sa23_a_token_of_an_issuer_is_kept_for_most_of_its_time(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    asked: list[tuple[str, bytes]] = []
    answers = [b'{"access_token":"a.b.c","expires_in":100}', b'{"access_token":"d.e.f"}', b"{}", b"no"]

    def answer(_: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        asked.append((headers["authorization"], body))
        return 200, {}, answers[len(asked) - 1]

    clock = ManualClock()
    source = TokenSource(clock)
    with https_server(authority.issue("issuer"), answer) as url:
        endpoint = {
            "sasl.oauthbearer.token.endpoint.url": f"{url}/token",
            "https.ca.location": str(authority.file),
        }
        settings = made(OIDC | endpoint)
        assert [source.token(settings) for _ in range(3)] == ["a.b.c"] * 3
        clock.advance_ms(80_000)
        assert source.token(settings) == "d.e.f"
        for _ in range(2):
            with pytest.raises(TokenNotObtained) as refused:
                source.token(settings)
            assert "pen:cil" not in str(refused.value)
    basic = base64.b64encode(b"loader:pen%3Acil").decode()
    assert asked[0] == (f"Basic {basic}", b"grant_type=client_credentials&scope=kafka")
    assert "pen:cil" not in repr(settings)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (LOGIN, "needs sasl.oauthbearer.token.file, or all of"),
        ({**LOGIN, "security.protocol": "SASL_PLAINTEXT", OF_FILE: "t"}, "does not encrypt"),
        ({**OIDC, OF_FILE: "t"}, "needs sasl.oauthbearer.token.file, or all of"),
        ({**OIDC, "sasl.oauthbearer.token.endpoint.url": "http://issuer.example"}, "https://"),
        ({**OIDC, "sasl.oauthbearer.client.id": ""}, "client.id"),
        ({**OIDC, "sasl.oauthbearer.method": "other"}, "method is oidc"),
        ({"security.protocol": "SSL", OF_FILE: "t"}, "need sasl.mechanism=OAUTHBEARER"),
        ({**LOGIN, "sasl.oauthbearer.config": "x"}, "is not a setting of this client"),
    ],
)
def test_sa23_settings_that_cannot_work_are_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidClientConfig, match=why) as refused:
        made(given)
    assert "pen:cil" not in str(refused.value)


def test_sa16_a_refused_token_ends_the_login(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a.b.c")
    settings = made({**LOGIN, OF_FILE: str(tmp_path / "token")})
    sent: list[bytes] = []

    def ask(request: Any, _: Any) -> Any:
        if not hasattr(request, "auth_bytes"):
            return SaslHandshakeResponse(mechanisms=["OAUTHBEARER"])
        sent.append(bytes(request.auth_bytes))
        if len(sent) == 1:
            return SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')
        return SaslAuthenticateResponse(error_code=58)

    assert settings.mechanism is LoginMechanism.OAUTHBEARER
    with pytest.raises(LoginRefused, match="refuses the token"):
        log_in(settings, "b:1", ask, seeded_randomness(7))
    assert sent == [b"n,,\x01auth=Bearer a.b.c\x01\x01", b"\x01"]
