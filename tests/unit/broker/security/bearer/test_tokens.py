"""Tokens: which are a login, in whose name, until when; and everything that is none."""

import base64
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from siltstone.broker.security.bearer.settings import (
    ALGORITHMS,
    BearerSettings,
    InvalidBearerSetting,
    parse_algorithms,
)
from siltstone.broker.security.bearer.tokens import AcceptedToken
from siltstone.broker.security.sasl.plain import TokenRefused
from siltstone.runtime.clock import ManualClock
from support.scenarios import in_loop
from support.security.issuer import AUDIENCE, ISSUER, Issuer, claim_of, signed_by, tokens_for

CLOCK = ManualClock()
NOW_MS = CLOCK.now_ms()
ISSUED = Issuer()
ISSUED.add_others()


async def refusal(token: str, authzid: str = "", **settings: Any) -> str:
    with pytest.raises(TokenRefused) as refused:
        await tokens_for(ISSUED, CLOCK, **settings).accepted(claim_of(token, authzid))
    assert not token or token not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("key_id", ["one", "ec", "ed"])
@in_loop
async def test_sa16_a_good_token_names_its_client_and_its_end(key_id: str) -> None:
    token = ISSUED.token(NOW_MS, key_id=key_id, aud=["other", AUDIENCE], sub="8c6f2a0e-1b7d")
    accepted = await tokens_for(ISSUED, CLOCK).accepted(claim_of(token))
    assert accepted == AcceptedToken("8c6f2a0e-1b7d", NOW_MS // 1_000 * 1_000 + 300_000)


@in_loop
async def test_another_claim_names_the_client() -> None:
    token = ISSUED.token(NOW_MS, sub=None, client_id="loader")
    tokens = tokens_for(ISSUED, CLOCK, principal_claim="client_id")
    assert (await tokens.accepted(claim_of(token, "loader"))).user == "loader"
    assert "names nobody" in await refusal(token)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"iss": "https://issuer.example/realm/"}, "InvalidIssuer"),
        ({"iss": "https://issuer.example"}, "InvalidIssuer"),
        ({"iss": [ISSUER]}, "Issuer"),
        ({"iss": None}, "MissingRequiredClaim"),
        ({"aud": "kafka2"}, "InvalidAudience"),
        ({"aud": ["a", "b"]}, "InvalidAudience"),
        ({"aud": []}, "MissingRequiredClaim"),
        ({"aud": None}, "MissingRequiredClaim"),
        ({"exp": None}, "MissingRequiredClaim"),
        ({"iat": None}, "MissingRequiredClaim"),
        ({"seconds": -31}, "expired"),
        ({"exp": "soon"}, "no time"),
        ({"exp": True}, "no time"),
        ({"exp": 1e300}, "no time"),
        ({"exp": -1}, "no time"),
        ({"iat": NOW_MS // 1_000 + 31}, "not valid yet"),
        ({"nbf": NOW_MS // 1_000 + 31}, "not valid yet"),
        ({"nbf": "now"}, "no time"),
        ({"sub": None}, "names nobody"),
        ({"sub": 7}, "names nobody"),
        ({"sub": ["ada"]}, "names nobody"),
        ({"sub": ""}, "empty or too long"),
        ({"sub": "x" * 256}, "empty or too long"),
        ({"sub": "a\nb"}, "names nobody"),
        ({"sub": " ada"}, "names nobody"),
        ({"key_id": "unknown"}, "no key of the issuer"),
        ({"header": {"crit": ["exp"], "exp": 1}}, "no signed"),
        ({"header": {"b64": True}}, "header"),
        ({"key": rsa.generate_private_key(65_537, 2_048)}, "InvalidSignature"),
        ({"algorithm": "PS256"}, "algorithm"),
        ({"algorithm": "RS384"}, "algorithm"),
        (
            {"key_id": "one", "key": ec.generate_private_key(ec.SECP256R1()), "algorithm": "ES256"},
            "no key of",
        ),
    ],
)
@in_loop
async def test_sa16_a_token_that_is_wrong_in_one_point_is_refused(changed: dict[str, Any], why: str) -> None:
    assert why in await refusal(ISSUED.token(NOW_MS, **changed))


@in_loop
async def test_sa16_a_token_within_the_difference_of_clocks_is_good() -> None:
    for changed in ({"seconds": -29}, {"iat": NOW_MS // 1_000 + 29}, {"nbf": NOW_MS // 1_000 + 29}):
        await tokens_for(ISSUED, CLOCK).accepted(claim_of(ISSUED.token(NOW_MS, **changed)))


def unsigned(header: bytes, payload: str) -> str:
    return f"{base64.urlsafe_b64encode(header).rstrip(b'=').decode()}.{payload}."


@in_loop
async def test_sa16_none_and_symmetric_algorithms_are_no_signature() -> None:
    payload = ISSUED.token(NOW_MS).split(".")[1]
    for header in (
        b'{"alg":"none"}',
        b'{"alg":"None","kid":"one"}',
        b'{"alg":"NONE"}',
        b'{"kid":"one"}',
        b'{"alg":null}',
    ):
        assert "algorithm" in await refusal(unsigned(header, payload))
    public = (
        ISSUED.keys["one"][0]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    claims = jwt.decode(ISSUED.token(NOW_MS), options={"verify_signature": False})
    forged = signed_by(public, "HS256", {"alg": "HS256", "kid": "one"}, claims)
    assert "algorithm" in await refusal(forged)


@in_loop
async def test_sa16_what_a_token_says_of_keys_is_not_looked_at() -> None:
    other = Issuer()
    token = other.token(
        NOW_MS,
        header={"jku": "https://evil.example/jwks", "x5u": "https://evil.example/x", "jwk": other.rows()[0]},
    )
    assert "InvalidSignature" in await refusal(token)


@pytest.mark.parametrize(
    "token", ["", "a", "a.b", "a.b.c", "a.b.c.d.e", "e30.e30.", "....", "[" * 10_000, "eyJ9.eyJ9.x"]
)
@in_loop
async def test_what_is_no_token_is_refused(token: str) -> None:
    await refusal(token)


@in_loop
async def test_a_client_asks_to_act_for_itself_only() -> None:
    assert "for another user" in await refusal(ISSUED.token(NOW_MS), "bob")


def test_sa17_issuer_audience_and_a_safe_place_of_keys_are_needed() -> None:
    good = {"keys": "k.json", "issuer": ISSUER, "audience": AUDIENCE, "algorithms": ("RS256",)}
    BearerSettings(**good)
    BearerSettings(**{**good, "keys": "https://issuer.example/jwks"})
    for wrong in (
        {"issuer": ""}, {"audience": ""}, {"principal_claim": ""}, {"keys": "http://issuer.example/jwks"},
        {"keys": "https://user:pencil@issuer.example/jwks"}, {"keys": "file:///etc/passwd"}, {"keys": "https:///jwks"},
    ):  # fmt: skip
        with pytest.raises(InvalidBearerSetting) as refused:
            BearerSettings(**{**good, **wrong})
        assert "pencil" not in str(refused.value)


def test_algorithms_are_named() -> None:
    assert parse_algorithms("ES256, RS256,ES256") == ("ES256", "RS256")
    assert not any(name.startswith(("HS", "none")) for name in ALGORITHMS)
    for wrong in ("", "none", "HS256", "RS256,none", "rs256"):
        with pytest.raises(InvalidBearerSetting, match="oauth_algorithms"):
            parse_algorithms(wrong)
