"""The console as an ASGI application: the gate that every request passes, and the table of pages.

The gate checks, in this order: the host that the request names (a web page could point a name of its own at this
address), whether the page of another site fetches this, who the visitor is, for a change the token of the form and its
origin, and whether the page's right is given. A path that is not in the table is not there. Every answer has the
headers of ``HEADERS``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from importlib.resources import files
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from siltstone.console.facts import StoreFacts
from siltstone.console.rendering import rendered
from siltstone.console.store import ConsoleStore
from siltstone.console.views.topics import TopicCounts
from siltstone.console.visitors import ConsoleAccess, UnknownVisitor, Visitor, VisitorSession
from siltstone.console.watchers import WATCHER
from siltstone.model.console_limits import (
    CONSOLE_ANSWER_SECONDS_MAX,
    CONSOLE_FORM_BYTES_MAX,
    CONSOLE_FORM_FIELDS_MAX,
)
from siltstone.model.errors import InvalidRequest, SiltstoneError
from siltstone.runtime.turns import in_turns

T = TypeVar("T")
log = logging.getLogger(__name__)

# Without a referrer at all, a browser says of every form that it comes from "null", which is nobody's origin.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
BESIDE_WHAT_IS_SHOWN = {"HX-Retarget": "#note", "HX-Reswap": "innerHTML"}
"""A part that cannot be loaded again leaves on the page what it shows; the reason stands above."""

CLOSED_BY_VISITOR = 499
"""The status, as in nginx, of an answer that nobody reads."""

ENDS = "the console ends: start it again, and load the page once more"
NUMBER_DIGITS_MAX = 19
OFFSET_MAX = 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
STATIC = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "htmx.min.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class PageRefused(InvalidRequest):
    """The page cannot be shown; ``status`` is the HTTP status of the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class Asked(msgspec.Struct, frozen=True):
    """One request of a visitor. ``form`` is empty but for a change."""

    store: ConsoleStore
    visitor: Visitor
    request: Request
    form: Mapping[str, str] = {}

    def query(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default)

    def part(self, name: str) -> str:
        """Returns a part of the path."""
        return str(self.request.path_params[name])

    async def run(self, call: Callable[[], T], seconds_max: float = CONSOLE_ANSWER_SECONDS_MAX) -> T:
        """Makes a blocking call in a thread of the console. Raises TimeoutError, and TooManyWait when too many pages
        wait already. A call whose time is over ends by itself."""
        async with asyncio.timeout(seconds_max):
            return await self.store.run(call)

    async def facts(self) -> StoreFacts:
        """Returns what was counted of the whole store, lately."""
        return await self.store.facts.of(self.store.image, self.store.now_ms())

    async def seen_topics(self) -> list[TopicCounts]:
        """Returns the topics that the visitor may see, by name. The rights of thousands are asked in turns."""
        topics = (await self.facts()).topics
        if self.visitor.sees_all:
            return list(topics)
        seen = await in_turns(lambda each: self.visitor.sees(each.name), topics)
        return [each for each, is_seen in zip(topics, seen, strict=True) if is_seen]

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Draws a page, or a part of one, with what all templates use."""
        store = self.store
        shared = {
            "place": store.place,
            "now_ms": store.now_ms(),
            "trouble": store.trouble,
            "visitor": self.visitor,
            "metadata_version": store.image.version,
            "path": self.request.scope["path"],
            "watcher": store.watchers.new_name(),
        }
        return HTMLResponse(rendered(template, shared | values), status)


Show = Callable[[Asked], Awaitable[Response]]


class ChangeRight(Enum):
    """The right that a change needs, as the same request of Kafka's protocol would. The right to alter the cluster is
    checked before the page; that of a topic or a group by the page, which knows its name."""

    CLUSTER = "alter the cluster"
    CONFIGS = "alter configurations of the topic"
    GROUP = "read the topic and the group"


class PageRoute(msgspec.Struct, frozen=True):
    """``change``: the page changes the store, and is asked for by POST. ``of_cluster``: it shows what the right to
    describe the cluster is for; other pages show each topic to visitors who may describe that topic. ``is_followed``:
    it is a part that a page loads again by itself, every few seconds."""

    path: str
    show: Show
    change: ChangeRight | None = None
    of_cluster: bool = False
    is_followed: bool = False

    @property
    def is_change(self) -> bool:
        return self.change is not None


class Console:
    """``is_host`` says whether a request may name this host."""

    def __init__(
        self,
        store: ConsoleStore,
        access: ConsoleAccess,
        pages: "tuple[PageRoute, ...]",
        is_host: Callable[[str], bool],
    ) -> None:
        self.store = store
        self._access = access
        self._is_host = is_host
        self._being_made: set[asyncio.Future[Response]] = set()
        self._has_ended = False
        routes = [Route("/static/{name}", _static)]
        for page in pages:
            methods = ["GET"] if page.change is None else ["POST"]
            routes.append(Route(page.path, self._shown(page), methods=methods))
        self.application = Starlette(routes=routes, exception_handlers={404: _missing, 405: _not_so})

    def _shown(self, page: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                answered = await self._while_connected(page, request)
            except PageRefused as refusal:
                answered = self._refusal(request, refusal.status, str(refusal))
            except SiltstoneError as failure:
                status = getattr(failure, "status", 400 if isinstance(failure, InvalidRequest) else 503)
                answered = self._refusal(request, status, str(failure))
            except TimeoutError:
                answered = self._refusal(
                    request, 503, "it took too long: ask for less, such as a shorter range"
                )
            except Exception:
                log.exception("the page %s failed", page.path)
                answered = self._refusal(request, 500, "the page failed, and the log of the console says why")
            answered.headers.update(HEADERS)
            if page.is_followed and answered.status_code >= 400:
                answered.headers.update(BESIDE_WHAT_IS_SHOWN)
            return answered

        return answer

    def close(self) -> None:
        """Gives up the pages that are being made, and makes no more."""
        self._has_ended = True
        for each in list(self._being_made):
            each.cancel()

    async def _while_connected(self, page: PageRoute, request: Request) -> Response:
        """Makes the answer, and gives up when the visitor has closed the page: what waits for a thread then never takes
        one. A change that was started is carried out."""
        if self._has_ended:
            raise PageRefused(503, ENDS)
        if page.is_change:
            return await self._answered(page, request)
        made = asyncio.ensure_future(self._answered(page, request))
        gone = asyncio.ensure_future(_gone(request))
        self._being_made.add(made)
        try:
            await asyncio.wait((made, gone), return_when=asyncio.FIRST_COMPLETED)
            if not made.done():
                return Response(status_code=CLOSED_BY_VISITOR)
            if made.cancelled():
                raise PageRefused(503, ENDS)
            return made.result()
        finally:
            self._being_made.discard(made)
            made.cancel()
            gone.cancel()
            await asyncio.wait((made, gone))

    async def _answered(self, page: PageRoute, request: Request) -> Response:
        if not self._is_host(_host_of(request)):
            raise PageRefused(421, "this host is not the console's: open the address that it has printed")
        if _is_of_another_page(request):
            raise PageRefused(403, "the page of another site asks for this: open the console yourself")
        visitor = await self._access.visitor_of(request)
        if isinstance(visitor, VisitorSession):
            answer = HTMLResponse(rendered("entered.html", {"path": quote(request.scope["path"])}))
            answer.set_cookie(
                visitor.cookie, visitor.value, httponly=True, samesite="strict", secure=_is_tls(request)
            )
            return answer
        if isinstance(visitor, UnknownVisitor):
            return _turned_away(visitor)
        if page.of_cluster and not visitor.describes_cluster:
            raise PageRefused(403, f"{visitor.name} may not describe the cluster")
        if page.is_followed:
            named = request.headers.get(WATCHER)
            self.store.watchers.admit(named or f"{visitor.name} at {request.scope['path']}")
        form: Mapping[str, str] = {}
        if page.change is not None:
            form = await _form_of(request)
            _refuse_forged(request, form, visitor)
            if page.change is ChangeRight.CLUSTER and not visitor.alters_cluster:
                raise PageRefused(403, f"{visitor.name} may not {page.change.value}")
        return await page.show(Asked(self.store, visitor, request, form))

    def _refusal(self, request: Request, status: int, reason: str) -> Response:
        if request.headers.get("hx-request"):
            return HTMLResponse(rendered("refusal.html", {"reason": reason}), status)
        return HTMLResponse(rendered("refused.html", {"reason": reason, "status": status}), status)


async def _gone(request: Request) -> None:
    """Returns when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _turned_away(stranger: UnknownVisitor) -> Response:
    answer = HTMLResponse(rendered("refused.html", {"reason": stranger.reason, "status": 401}), 401)
    if stranger.challenge:
        answer.headers["WWW-Authenticate"] = stranger.challenge
    return answer


async def _form_of(request: Request) -> Mapping[str, str]:
    """Reads a form of names and texts. Raises PageRefused."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > CONSOLE_FORM_BYTES_MAX:
            raise PageRefused(413, f"a form has at most {CONSOLE_FORM_BYTES_MAX:,} bytes")
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise PageRefused(415, "a change is sent as a form")
    try:
        return dict(
            parse_qsl(
                body.decode("ascii"),
                keep_blank_values=True,
                max_num_fields=CONSOLE_FORM_FIELDS_MAX,
                errors="strict",
            )
        )
    except ValueError as malformed:
        raise PageRefused(400, f"the form cannot be read: {malformed}") from malformed


def _refuse_forged(request: Request, form: Mapping[str, str], visitor: Visitor) -> None:
    """Raises PageRefused when the form may come from the page of somebody else, or the visitor may change nothing."""
    origin = request.headers.get("origin", "")
    if origin and origin != f"{request.scope['scheme']}://{request.headers.get('host')}":
        raise PageRefused(403, f"the form comes from {origin}, and not from this console")
    if form.get("token") != visitor.token or not visitor.token:
        raise PageRefused(403, "the form is of another session: load the page again")
    if not visitor.may_change:
        raise PageRefused(
            403, "this console only reads: start it with --changes, or type the command that is shown"
        )


def number_of(text: str) -> int | None:
    """Parses a number of the address or a form, such as an offset; None if it is none, or has more than 64 bits."""
    if not (text.isascii() and text.isdigit() and len(text) <= NUMBER_DIGITS_MAX):
        return None
    found = int(text)
    return found if found <= OFFSET_MAX else None


def time_ms_of(text: str) -> int:
    """Parses a time, as forms send it: in UTC unless it names a zone. Raises PageRefused."""
    try:
        found = datetime.fromisoformat(text)
        return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise PageRefused(400, f"{text!r} is no time: write 2026-11-29T08:30 (UTC)") from None


def _is_of_another_page(request: Request) -> bool:
    """Whether a browser says that the page of another site, or of another port, fetches this for itself, such as an
    image. It could not read the answer, but queries and plans cost the same. A link to a page is nothing of that."""
    if request.headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    return not (request.method == "GET" and request.headers.get("sec-fetch-dest") == "document")


def _host_of(request: Request) -> str:
    """Returns the host that the request names, in lower case and without its port; empty if it names none."""
    host = request.headers.get("host", "").lower()
    return host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]


def _is_tls(request: Request) -> bool:
    return bool(request.scope["scheme"] == "https")


async def _static(request: Request) -> Response:
    name = str(request.path_params["name"])
    if name not in STATIC:
        return _missing_answer()
    found = files("siltstone.console").joinpath("static", name).read_bytes()
    answer = Response(found, media_type=STATIC[name])
    answer.headers.update(HEADERS | {"Cache-Control": "max-age=3600"})
    return answer


async def _missing(request: Request, _: Exception) -> Response:
    return _missing_answer()


def _missing_answer() -> Response:
    answer = HTMLResponse(rendered("refused.html", {"reason": "there is no such page", "status": 404}), 404)
    answer.headers.update(HEADERS)
    return answer


async def _not_so(request: Request, _: Exception) -> Response:
    answer = PlainTextResponse("pages are asked for by GET, changes by POST\n", 405)
    answer.headers.update(HEADERS)
    return answer
