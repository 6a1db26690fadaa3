"""An issuer of tokens for tests: its keys, as a key set, and tokens that it signs."""

import base64
from typing import Any

import jwt
import msgspec
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from siltstone.broker.security.bearer.keys import IssuerKeys
from siltstone.broker.security.bearer.settings import BearerSettings
from siltstone.broker.security.bearer.tokens import BearerTokens
from siltstone.broker.security.sasl.oauthbearer import BearerClaim
from siltstone.model.secret import Secret
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import Clock

ISSUER, AUDIENCE = "https://issuer.example/realm", "kafka"
WHERE = "jwks.json"


class Issuer:
    """``keys``: key id → private key and algorithm. A key set has them all."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[Any, str]] = {}
        self.reads = 0
        self.add("one", rsa.generate_private_key(65_537, 2_048), "RS256")

    def add(self, key_id: str, key: Any, algorithm: str) -> None:
        self.keys[key_id] = (key, algorithm)

    def add_others(self) -> None:
        self.add("ec", ec.generate_private_key(ec.SECP256R1()), "ES256")
        self.add("ed", ed25519.Ed25519PrivateKey.generate(), "EdDSA")

    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for key_id, (key, algorithm) in self.keys.items():
            writer = jwt.algorithms.get_default_algorithms()[algorithm]
            rows.append({**writer.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig"})
        return rows

    def key_set(self) -> bytes:
        return msgspec.json.encode({"keys": self.rows()})

    def read(self, place: str, authorities: str, clock: Clock) -> bytes:
        self.reads += 1
        return self.key_set()

    def token(
        self,
        now_ms: int,
        *,
        key_id: str = "one",
        key: Any = None,
        algorithm: str | None = None,
        header: dict[str, Any] | None = None,
        seconds: float = 300,
        **claims: Any,
    ) -> str:
        """A claim of None is left out."""
        own, own_algorithm = self.keys[key_id if key_id in self.keys else "one"]
        now = now_ms // 1_000
        payload = {
            "iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + seconds, **claims,
        }  # fmt: skip
        left = {name: value for name, value in payload.items() if value is not None}
        named = algorithm or own_algorithm
        return signed_by(key or own, named, {"alg": named, "kid": key_id, **(header or {})}, left)


def signed_by(key: Any, algorithm: str, header: dict[str, Any], claims: dict[str, Any]) -> str:
    """Returns a token with exactly these parts: PyJWT would refuse to sign some of them."""
    signer = jwt.algorithms.get_default_algorithms()[algorithm]
    signed = b".".join(part(msgspec.json.encode(each)) for each in (header, claims))
    return (signed + b"." + part(signer.sign(signed, key))).decode()


def part(value: bytes) -> bytes:
    return base64.urlsafe_b64encode(value).rstrip(b"=")


def tokens_for(issuer: Issuer, clock: Clock, **settings: Any) -> BearerTokens:
    made = BearerSettings(
        **{
            "keys": WHERE,
            "issuer": ISSUER,
            "audience": AUDIENCE,
            "algorithms": ("RS256", "ES256", "EdDSA"),
            **settings,
        }
    )
    return BearerTokens(made, IssuerKeys(WHERE, clock, InlineCalls(), read=issuer.read), clock)


def claim_of(token: str, authzid: str = "") -> BearerClaim:
    return BearerClaim(Secret(token), authzid)


def message_of(token: str, authzid: str = "", **extensions: str) -> bytes:
    """The first message of a login by this token."""
    name = f"a={authzid}" if authzid else ""
    pairs = "".join(f"{key}={value}\x01" for key, value in extensions.items())
    return f"n,{name},\x01auth=Bearer {token}\x01{pairs}\x01".encode()
