"""One question over https, bounded in time and bytes, for what a program needs of an identity provider: its keys, a
token. It blocks.

Redirects are not followed: one may lead to http, or to an address inside the network of this machine.
"""

import ssl
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

from siltstone.model.errors import Unavailable
from siltstone.model.limits import SECOND_MS
from siltstone.runtime.clock import Clock

ANSWER_MS_MAX = 10 * SECOND_MS
ANSWER_BYTES_MAX = 256 * 1024
"""Keys and tokens have a few kilobytes. A server that answers slower or with more is not waited for."""

PIECE_BYTES = 16 * 1024
_OK = 200


class HttpsNotAnswered(Unavailable):
    """A server has not answered a question, or not with what was asked for."""


def is_https(url: str) -> bool:
    """Returns whether the text is an https URL without a password in it."""
    parts = urlsplit(url)
    return parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc


def https_answer(
    url: str,
    authorities: str,
    clock: Clock,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Gets a URL, or posts a body to it. ``authorities``: a file in PEM with the authorities of the server; "": as this
    machine knows them. Raises HttpsNotAnswered, whose text has no header and no body."""
    parts = urlsplit(url)
    assert is_https(url) and parts.hostname is not None
    deadline_ms = clock.monotonic_ms() + ANSWER_MS_MAX
    path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    sent = {"Accept": "application/json", "Connection": "close", **(headers or {})}
    try:
        context = ssl.create_default_context(cafile=authorities or None)
        connection = HTTPSConnection(
            parts.hostname, parts.port, timeout=ANSWER_MS_MAX / SECOND_MS, context=context
        )
        try:
            connection.request("GET" if body is None else "POST", path, body, sent)
            with connection.getresponse() as answer:  # it keeps the socket when the connection is closed
                return _content(answer, url, clock, deadline_ms)
        finally:
            connection.close()
    except (OSError, HTTPException, ValueError) as failure:
        raise HttpsNotAnswered(f"{_shown(url)} cannot be asked: {failure}") from failure


def _content(answer: HTTPResponse, url: str, clock: Clock, deadline_ms: float) -> bytes:
    """Raises HttpsNotAnswered."""
    if answer.status != _OK:
        raise HttpsNotAnswered(f"{_shown(url)} answers {answer.status}: correct the address or the login")
    content = bytearray()
    while piece := answer.read1(PIECE_BYTES):
        content += piece
        if len(content) > ANSWER_BYTES_MAX or clock.monotonic_ms() > deadline_ms:
            raise HttpsNotAnswered(f"the answer of {_shown(url)} is too large, or comes too slowly")
    return bytes(content)


def _shown(url: str) -> str:
    """Returns the URL without its query, which may have a secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"
