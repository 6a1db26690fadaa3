"""Checks a bearer token: signature, issuer, audience, times; and returns in whose name it speaks, and until when.

Issuer and audience have to be configured and are compared as texts. The algorithm has to be one that the listener takes
*and* one that fits the key, so no token chooses how it is checked. ``none`` and symmetric algorithms are not known.
"""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from siltstone.broker.security.bearer.key_set import jwt_module
from siltstone.broker.security.bearer.keys import IssuerKeys
from siltstone.broker.security.bearer.settings import BearerSettings
from siltstone.broker.security.sasl.oauthbearer import BearerClaim
from siltstone.broker.security.sasl.plain import TokenRefused
from siltstone.model.limits import SECOND_MS
from siltstone.model.serving_limits import USER_NAME_BYTES_MAX
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock

SKEW_SECONDS = 30
"""How much the clocks of issuer and broker may differ, as in Kafka."""

TIME_SECONDS_MAX = 1 << 40


class AcceptedToken(msgspec.Struct, frozen=True):
    """``expires_ms``: in ms since 1970."""

    user: str
    expires_ms: int


class BearerTokens:
    """The tokens that one listener takes."""

    def __init__(self, settings: BearerSettings, keys: IssuerKeys, clock: Clock) -> None:
        self._settings = settings
        self._keys = keys
        self._clock = clock

    async def close(self) -> None:
        await self._keys.close()

    def read_keys_again(self) -> None:
        """Lets the next token wait for the keys that the issuer has now."""
        self._keys.read_again()

    async def accepted(self, claim: BearerClaim) -> AcceptedToken:
        """Raises TokenRefused, whose text says nothing of the token."""
        jwt = jwt_module()
        token = claim.token.revealed()
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise TokenRefused("the token is no signed JSON web token") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in self._settings.algorithms:
            raise TokenRefused("the algorithm of the token is none that this listener takes")
        if "crit" in header or "b64" in header or not (key_id is None or isinstance(key_id, str)):
            raise TokenRefused("the header of the token asks for what is not supported")
        key = await self._keys.key(key_id)
        if key is None or algorithm not in key.algorithms:
            raise TokenRefused("no key of the issuer fits the token and its algorithm")
        return self._judged(self._verified(jwt, token, key.key, algorithm), claim.authzid)

    def _verified(self, jwt: Any, token: str, key: Any, algorithm: str) -> dict[str, Any]:
        """Returns the claims of a token with the right signature, issuer and audience."""
        options = {"require": ["exp", "iat", "iss", "aud"], "verify_exp": False, "verify_iat": False}
        options |= {"verify_nbf": False, "verify_sub": False, "verify_jti": False}
        try:
            claims: dict[str, Any] = jwt.decode(
                token, key, algorithms=[algorithm], issuer=self._settings.issuer,
                audience=self._settings.audience, options=options,
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError) as refusal:
            raise TokenRefused(f"the token is refused: {type(refusal).__name__}") from None
        return claims

    def _judged(self, claims: dict[str, Any], authzid: str) -> AcceptedToken:
        """Judges the times, by this broker's clock, and the name. Raises TokenRefused."""
        now = self._clock.now_ms() / SECOND_MS
        expires, issued = _time(claims["exp"]), _time(claims["iat"])
        if now >= expires + SKEW_SECONDS:
            raise TokenRefused("the token has expired")
        if issued > now + SKEW_SECONDS or ("nbf" in claims and _time(claims["nbf"]) > now + SKEW_SECONDS):
            raise TokenRefused("the token is not valid yet")
        user = claims.get(self._settings.principal_claim)
        if not isinstance(user, str) or not user.isprintable() or user != user.strip():
            raise TokenRefused(f"the claim {self._settings.principal_claim} of the token names nobody")
        if not 0 < len(user.encode()) <= USER_NAME_BYTES_MAX:
            raise TokenRefused("the name in the token is empty or too long")
        if authzid not in ("", user):
            raise TokenRefused("it asks to act for another user")
        return AcceptedToken(user, int(expires * SECOND_MS))


def tokens_of(
    settings: Mapping[str, BearerSettings], clock: Clock, calls: BlockingCalls
) -> dict[str, BearerTokens]:
    """Listener → the tokens that it takes."""
    return {
        name: BearerTokens(each, IssuerKeys(each.keys, clock, calls, each.authorities), clock)
        for name, each in settings.items()
    }


def _time(claim: object) -> float:
    """Raises TokenRefused."""
    is_number = isinstance(claim, int | float) and not isinstance(claim, bool)
    if not is_number or not math.isfinite(claim) or not 0 <= claim < TIME_SECONDS_MAX:  # type: ignore[arg-type, operator]
        raise TokenRefused("a time in the token is no time")
    return float(claim)  # type: ignore[arg-type]
