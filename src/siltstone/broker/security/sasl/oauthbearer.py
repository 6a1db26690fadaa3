"""The server's side of OAUTHBEARER (RFC 7628): one message with a token, and one more when the token is refused.

    n,[a=AUTHZID],^Aauth=Bearer TOKEN[^Aname=value]*^A^A

A refused token is answered with a challenge in JSON, the client confirms it with one byte, and then the login fails, as
in Kafka. Extensions are not looked at: clients of Confluent send some of their own. ``bearer`` checks tokens.
"""

import re

import msgspec

from siltstone.broker.security.sasl.plain import TokenRefused
from siltstone.model.secret import Secret

TOKEN_BYTES_MAX = 32 * 1024
EXTENSIONS_BYTES_MAX = 8 * 1024
"""Tokens have a kilobyte or two; those with many groups have more. Extensions are identifiers."""

INVALID_TOKEN = b'{"status":"invalid_token"}'
"""The challenge to every token that is refused, for whatever cause [Kafka: OAuthBearerSaslServer]."""

_SEPARATOR = "\x01"
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
_EXTENSION = re.compile(r"[A-Za-z]+")


class BearerClaim(msgspec.Struct, frozen=True):
    """A client shows this token; ``authzid`` is the name that it asks for, empty if none."""

    token: Secret
    authzid: str


class BearerExchange:
    """``refusal``: why the token was refused, once it was."""

    def __init__(self) -> None:
        self.refusal = ""

    def first(self, message: bytes) -> BearerClaim:
        """Raises TokenRefused for a malformed message, and for what follows a refused token."""
        if self.refusal:
            raise TokenRefused(self.refusal)
        return bearer_claim(message)


def bearer_claim(message: bytes) -> BearerClaim:
    """Raises TokenRefused."""
    if len(message) > TOKEN_BYTES_MAX + EXTENSIONS_BYTES_MAX:
        raise TokenRefused("the message is too long")
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise TokenRefused("it is not UTF-8") from None
    header, *pairs = text.split(_SEPARATOR)
    flag, _, rest = header.partition(",")
    if flag != "n" or not rest.endswith(",") or pairs[-2:] != ["", ""]:
        raise TokenRefused("it is no message of OAUTHBEARER")
    token, size = "", 0
    for number, pair in enumerate(pairs[:-2]):
        name, equals, value = pair.partition("=")
        if name == "auth":
            if token or number:
                raise TokenRefused("the token comes twice, or not first")
            token = _bearer(value)
        elif not equals or not _EXTENSION.fullmatch(name):
            raise TokenRefused("an extension is malformed")
        else:
            size += len(pair)
    if not token or size > EXTENSIONS_BYTES_MAX:
        raise TokenRefused("there is no token, or the extensions are too long")
    return BearerClaim(Secret(token), _authzid(rest[:-1]))


def _bearer(value: str) -> str:
    """Returns the token. Raises TokenRefused."""
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token) or len(token) > TOKEN_BYTES_MAX:
        raise TokenRefused("it has no bearer token")
    return token


def _authzid(written: str) -> str:
    """Raises TokenRefused."""
    if not written:
        return ""
    if not written.startswith("a="):
        raise TokenRefused("it is no message of OAUTHBEARER")
    return written[2:].replace("=2C", ",").replace("=3D", "=")
