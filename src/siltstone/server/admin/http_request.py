"""What the endpoints of an admin listener need of a request, made of what the HTTP server has read. Pure."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from siltstone.model.access import Principal
from siltstone.model.errors import InvalidRequest
from siltstone.model.secret import NO_SECRET, Secret

METHODS = frozenset({"GET", "HEAD"})
PLAIN = "text/plain; charset=utf-8"
OPENMETRICS = "application/openmetrics-text"
_SINGLE = frozenset({"host", "authorization"})
"""Headers that no ordinary client sends twice, and that could be understood in two ways then."""


class RequestRefused(InvalidRequest):
    """The request is not answered as it was meant; ``status`` is the HTTP status of the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class HttpCaller(msgspec.Struct, frozen=True):
    """Where a request comes from. ``certificate``: the owner of the certificate that the client showed."""

    host: str = ""
    certificate: Principal | None = None


class HttpRequest(msgspec.Struct, frozen=True):
    """``path`` is without the query. ``host`` is in lower case and without the port; empty if an HTTP/1.0 client sent
    none. ``authorization``: the header of that name."""

    method: str
    path: str
    host: str
    accept: str
    authorization: Secret = NO_SECRET
    caller: HttpCaller = HttpCaller()

    @property
    def wants_openmetrics(self) -> bool:
        """Whether the client prefers OpenMetrics to Prometheus' text format."""
        weights = _weights(self.accept)
        openmetrics = weights.get(OPENMETRICS, 0.0)
        return openmetrics > 0 and openmetrics >= weights.get("text/plain", 0.0)


class HttpAnswer(msgspec.Struct, frozen=True):
    status: int
    body: bytes
    content_type: str = PLAIN


def request_of(scope: Any, caller: HttpCaller) -> HttpRequest:
    """Returns the request of an ASGI scope. Raises RequestRefused when a header that must be single is there twice."""
    headers = _headers(scope["headers"])
    return HttpRequest(
        scope["method"],
        scope["path"],
        _without_port(headers.get("host", "")),
        headers.get("accept", ""),
        Secret(headers.get("authorization", "")),
        caller,
    )


def _headers(lines: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for raw_name, raw_value in lines:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in headers and name in _SINGLE:
            raise RequestRefused(400, f"the header {name} is sent twice")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _without_port(host: str) -> str:
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0].removeprefix("[")
    return host.partition(":")[0]


def _weights(accept: str) -> dict[str, float]:
    """Returns the weight of each media type that the header names."""
    weights: dict[str, float] = {}
    for part in accept.split(","):
        kind, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weights[kind] = max(_weight(parameters), weights.get(kind, 0.0))
    return weights


def _weight(parameters: list[str]) -> float:
    written = next((each.removeprefix("q=") for each in parameters if each.startswith("q=")), "1")
    return float(written) if re.fullmatch(r"[01](\.\d{0,3})?", written) else 0.0
