"""The keys with which an issuer signs its tokens: a JSON web key set (RFC 7517), and which algorithm fits each key.

Keys that cannot check a signature are passed over: keys of other uses, symmetric ones (a broker that checks with one
could also sign), short ones, and private ones, which have no place in such a file.
"""

from typing import Any

import msgspec

from siltstone.broker.security.bearer.settings import ALGORITHMS_OF
from siltstone.model.errors import InvalidRequest

KEY_SET_BYTES_MAX = 256 * 1024
KEYS_MAX = 100
RSA_BITS_MIN = 2_048


class BearerExtraMissing(InvalidRequest):
    """Tokens need the extra ``oauth``, which is not installed."""


class KeySetUnusable(InvalidRequest):
    """The keys of an issuer are no key set, or none of them can check a token."""


class IssuerKey(msgspec.Struct, frozen=True):
    """``key`` is one of cryptography's; ``algorithms``: which ones it fits."""

    key: Any
    algorithms: tuple[str, ...]


def jwt_module() -> Any:
    """Returns PyJWT. Raises BearerExtraMissing."""
    try:
        import jwt  # noqa: PLC0415
    except ImportError as missing:
        raise BearerExtraMissing("OAUTHBEARER needs PyJWT: pip install 'siltstone[oauth]'") from missing
    if not jwt.algorithms.has_crypto:
        raise BearerExtraMissing(
            "PyJWT cannot check signatures without cryptography: pip install 'siltstone[oauth]'"
        )
    return jwt


def parse_key_set(content: bytes, where: str) -> dict[str, IssuerKey]:
    """Returns key id → key; a key without an id has the id "". Raises KeySetUnusable, BearerExtraMissing."""
    if len(content) > KEY_SET_BYTES_MAX:
        raise KeySetUnusable(f"the keys at {where} have more than {KEY_SET_BYTES_MAX:,} bytes")
    try:
        listed = msgspec.json.decode(content, type=dict[str, Any]).get("keys")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        listed = None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise KeySetUnusable(
            f"what is at {where} is no key set (JWKS) of at most {KEYS_MAX} keys: a JSON object with an array keys"
        )
    keys: dict[str, IssuerKey] = {}
    for each in listed:
        if isinstance(each, dict) and (key := _issuer_key(each)) is not None:
            keys.setdefault(str(each.get("kid", "")), key)
    if not keys:
        raise KeySetUnusable(f"the key set at {where} has no key that can check tokens: RSA, EC or Ed25519")
    return keys


def _issuer_key(row: dict[str, Any]) -> IssuerKey | None:
    kind = row.get("kty")
    fitting = ALGORITHMS_OF.get(str(kind if kind == "RSA" else row.get("crv")), ())
    named = row.get("alg")
    algorithms = tuple(each for each in fitting if named in (None, each))
    if row.get("use", "sig") != "sig" or "d" in row or not algorithms:
        return None
    jwt = jwt_module()
    try:
        key = jwt.PyJWK(row, algorithm=algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if kind == "RSA" and key.key_size < RSA_BITS_MIN:
        return None
    return IssuerKey(key, algorithms)
