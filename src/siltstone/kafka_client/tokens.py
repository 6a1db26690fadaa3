"""Where this client gets the token with which it logs in by OAUTHBEARER: from a file that another program renews, or
from an issuer, by client credentials (librdkafka's ``sasl.oauthbearer.method=oidc``).

A token of an issuer is kept until four fifths of its time have passed, for all connections of the process with the same
settings. A file is read at each login.
"""

import base64
from pathlib import Path
from threading import Lock
from urllib.parse import quote, urlencode

import msgspec

from siltstone.kafka_client.client_settings import ClientSettings
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import SECOND_MS
from siltstone.model.secret import Secret
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.https import HttpsNotAnswered, https_answer

TOKEN_BYTES_MAX = 32 * 1024
KEPT_PART = 0.8


class TokenNotObtained(InvalidRequest):
    """There is no token to log in with."""


class _Issued(msgspec.Struct):
    access_token: str
    expires_in: float = 0.0


class _KeptToken(msgspec.Struct, frozen=True):
    token: Secret
    until_ms: float


class TokenSource:
    """Tokens for any number of settings."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[ClientSettings, _KeptToken] = {}
        self._lock = Lock()

    def token(self, settings: ClientSettings) -> str:
        """Blocks. Raises TokenNotObtained."""
        if settings.token_file:
            return _read(settings.token_file)
        with self._lock:
            kept = self._kept.get(settings)
            if kept is None or self._clock.monotonic_ms() >= kept.until_ms:
                kept = self._kept[settings] = self._issued(settings)
        return kept.token.revealed()

    def _issued(self, settings: ClientSettings) -> _KeptToken:
        form = {"grant_type": "client_credentials"}
        if settings.token_scope:
            form["scope"] = settings.token_scope
        login = f"{quote(settings.client_id, safe='')}:{quote(settings.client_secret.revealed(), safe='')}"
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Authorization": f"Basic {base64.b64encode(login.encode()).decode()}",
        }
        asked_ms = self._clock.monotonic_ms()
        try:
            answer = https_answer(
                settings.token_endpoint,
                settings.https_authorities,
                self._clock,
                urlencode(form).encode(),
                headers,
            )
        except HttpsNotAnswered as failure:
            raise TokenNotObtained(f"no token to log in with: {failure}") from failure
        return _issued_token(answer, asked_ms)


def _issued_token(answer: bytes, asked_ms: float) -> _KeptToken:
    """Raises TokenNotObtained."""
    try:
        issued = msgspec.json.decode(answer, type=_Issued)
    except msgspec.DecodeError:
        raise TokenNotObtained("the issuer of tokens answers without an access_token") from None
    token = Secret(_checked(issued.access_token, "the issuer"))
    return _KeptToken(token, asked_ms + issued.expires_in * SECOND_MS * KEPT_PART)


def _read(path: str) -> str:
    """Raises TokenNotObtained."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(TOKEN_BYTES_MAX + 2).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "not a token"
        raise TokenNotObtained(
            f"the token in {path} (sasl.oauthbearer.token.file) cannot be read: {reason}"
        ) from None
    return _checked(content, path)


def _checked(token: str, where: str) -> str:
    """Raises TokenNotObtained."""
    if (
        not token
        or len(token) > TOKEN_BYTES_MAX
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise TokenNotObtained(f"what {where} has is no token of at most {TOKEN_BYTES_MAX:,} bytes")
    return token


TOKENS = TokenSource(SystemClock())
"""Those of this process."""
