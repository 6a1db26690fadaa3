"""Parses the head of an HTTP request strictly: GET or HEAD of a path, without a body. Pure.

Everything that could be understood in two ways is refused, because no ordinary client sends it: line ends without a
carriage return, folded or repeated headers, control characters, bodies. RFC 9112 has the rules.
"""

import re
from collections.abc import Mapping

import msgspec

from siltstone.model.access import Principal
from siltstone.model.errors import InvalidRequest
from siltstone.model.secret import NO_SECRET, Secret

HEAD_END = b"\r\n\r\n"
# Why not a web framework or h11: three GET requests need no bodies, chunks, upgrades or keep-alive, and each would
# have to be switched off again; and livez is answered before a store or five packages are loaded (decision 17).
METHODS = frozenset({"GET", "HEAD"})
_REQUEST_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) (/[!-~]*) HTTP/(1\.[01])")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t -~\x80-\xff]*)")
"""The blanks around a value are stripped afterwards. A pattern that matched them, too, would try each way to divide a
header of blanks, for minutes, on the event loop of the broker."""

_SINGLE = frozenset({"host", "content-length", "transfer-encoding", "authorization"})

OPENMETRICS = "application/openmetrics-text"


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


def parse_head(head: bytes) -> HttpRequest:
    """``head`` ends before HEAD_END. Raises RequestRefused."""
    first, *lines = head.split(b"\r\n")
    match = _REQUEST_LINE.fullmatch(first)
    if match is None:
        raise RequestRefused(400, "the first line is not METHOD /path HTTP/1.1")
    headers = _headers(lines)
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise RequestRefused(400, "a request to this listener has no body")
    host = headers.get("host")
    if host is None and match[3] == b"1.1":
        raise RequestRefused(400, "the header Host is missing")
    method = match[1].decode("ascii")
    if method not in METHODS:
        raise RequestRefused(405, "only GET and HEAD are answered here")
    path = match[2].decode("ascii").partition("?")[0]
    authorization = Secret(headers.get("authorization", ""))
    return HttpRequest(method, path, _without_port(host or ""), headers.get("accept", ""), authorization)


def _headers(lines: list[bytes]) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        match = _HEADER.fullmatch(line)
        if match is None:
            raise RequestRefused(400, "a header is not NAME: VALUE in one line")
        name, value = match[1].decode("ascii").lower(), match[2].strip(b" \t").decode("latin-1")
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
