"""What a listener has to be told of the tokens that it takes (OAUTHBEARER): whose they are, and how they are signed.

Issuer, audience and a place of the keys have no default: a token of somebody else, or for somebody else, is no login.
"""

from collections.abc import Mapping

import msgspec

from siltstone.model.errors import InvalidRequest
from siltstone.runtime.https import is_https

ALGORITHMS_OF: Mapping[str, tuple[str, ...]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "P-256": ("ES256",),
    "P-384": ("ES384",),
    "P-521": ("ES512",),
    "Ed25519": ("EdDSA",),
}
"""Type or curve of a key → the algorithms that it fits."""

ALGORITHMS = tuple(name for names in ALGORITHMS_OF.values() for name in names)
"""What a listener may take. Neither "none" nor a symmetric algorithm is among them."""


class InvalidBearerSetting(InvalidRequest):
    """What a listener says of its tokens is incomplete, or cannot work."""


class BearerSettings(msgspec.Struct, frozen=True):
    """``keys``: a path or an https URL; ``authorities``: a file in PEM with the authorities of its server, "": as this
    machine knows them. ``principal_claim`` names the client."""

    keys: str
    issuer: str
    audience: str
    algorithms: tuple[str, ...]
    principal_claim: str = "sub"
    authorities: str = ""

    def __post_init__(self) -> None:
        if "://" in self.keys and not is_https(self.keys):
            raise InvalidBearerSetting(
                "oauth_jwks_url is an address https://HOST/…, without a password in it"
            )
        if not self.issuer or not self.audience or not self.principal_claim:
            raise InvalidBearerSetting(
                "OAUTHBEARER needs oauth_issuer and oauth_audience, and a claim that names clients: a token of another "
                "issuer, or for another program, is no login"
            )


def parse_algorithms(text: str) -> tuple[str, ...]:
    """Returns the algorithms in a list with commas. Raises InvalidBearerSetting."""
    named = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not named or (unknown := [each for each in named if each not in ALGORITHMS]):
        wrong = f"{', '.join(unknown)} is not taken" if named else "it is empty"
        raise InvalidBearerSetting(f"oauth_algorithms: {wrong}; known are {', '.join(ALGORITHMS)}")
    return named
