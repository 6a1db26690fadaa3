"""Who looks at the console, and what this visitor may see and change.

``TokenAccess`` is that of ``siltstone console``: the program prints a URL with a token. Whoever opens it first gets a
session, which is a cookie of that browser; the token is worth nothing afterwards. A broker's console asks the broker's
users instead (``server.admin``).
"""

from collections.abc import Callable
from secrets import compare_digest
from typing import Protocol

import msgspec
from starlette.requests import Request

from siltstone.model.access import ANONYMOUS, Principal
from siltstone.model.console_limits import CONSOLE_IDLE_MS, CONSOLE_SESSION_MS, CONSOLE_SESSIONS_MAX
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random, random_token


class Visitor(msgspec.Struct, frozen=True):
    """``sees``: whether the visitor may see the topic of a name; ``reads``: whether also its messages. ``token``
    proves that a form comes from a page of this session. ``may_change``: whether this visitor may change anything, as
    far as the rights go, which are ``alters_cluster``, ``alters_configs`` of a topic, and ``commits`` for a group.
    ``describes_configs``: whether it may see the configurations of a topic.
    ``sees_all``: ``sees`` is true of every topic.
    ``principal`` and ``host``: in whose name a broker's console asks its broker, and from where."""

    name: str
    token: str
    may_change: bool = False
    sees: Callable[[str], bool] = lambda _: True
    reads: Callable[[str], bool] = lambda _: True
    sees_group: Callable[[str], bool] = lambda _: True
    describes_cluster: bool = True
    alters_cluster: bool = True
    alters_configs: Callable[[str], bool] = lambda _: True
    describes_configs: Callable[[str], bool] = lambda _: True
    commits: Callable[[str], bool] = lambda _: True
    sees_all: bool = False
    principal: Principal = ANONYMOUS
    host: str = ""

    @property
    def changes_cluster(self) -> bool:
        """Whether it cancels jobs, and moves partitions."""
        return self.may_change and self.alters_cluster

    def changes_configs(self, topic: str) -> bool:
        return self.may_change and self.alters_configs(topic)

    def resets(self, group: str, topic: str) -> bool:
        return self.may_change and self.commits(group) and self.reads(topic)


class UnknownVisitor(msgspec.Struct, frozen=True):
    """A visitor who is nobody yet. ``challenge``: the header WWW-Authenticate of the answer, if there is a login."""

    reason: str
    challenge: str = ""


class VisitorSession(msgspec.Struct, frozen=True):
    """A token was shown for the first time: the answer sets this cookie, and leads to the page without the token."""

    cookie: str
    value: str


class ConsoleAccess(Protocol):
    async def visitor_of(self, request: Request) -> Visitor | UnknownVisitor | VisitorSession: ...


class _Session(msgspec.Struct):
    form_token: str
    since_ms: float
    used_ms: float


class TokenAccess:
    """Sessions for the holder of the token. A session ends after CONSOLE_SESSION_MS, or CONSOLE_IDLE_MS without a
    request. The newest CONSOLE_SESSIONS_MAX are kept."""

    def __init__(self, clock: Clock, rng: Random, *, port: int, may_change: bool) -> None:
        self.token = random_token(rng)
        self._is_used = False
        self._clock = clock
        self._rng = rng
        self._cookie = f"siltstone-console-{port}"
        self._may_change = may_change
        self._sessions: dict[str, _Session] = {}

    async def visitor_of(self, request: Request) -> Visitor | UnknownVisitor | VisitorSession:
        now_ms = self._clock.monotonic_ms()
        found = self._sessions.get(request.cookies.get(self._cookie, ""))
        if found is not None and self._is_live(found, now_ms):
            found.used_ms = now_ms
            return Visitor("you", found.form_token, may_change=self._may_change, sees_all=True)
        shown = request.query_params.get("token", "")
        if shown and not self._is_used and compare_digest(shown.encode(), self.token.encode()):
            self._is_used = True
            return VisitorSession(self._cookie, self._begin(now_ms))
        if shown:
            return UnknownVisitor(
                "this link was used already, or is another program's: start siltstone console once more"
            )
        return UnknownVisitor("open the link that siltstone console has printed: it lets one browser in")

    def _begin(self, now_ms: float) -> str:
        if len(self._sessions) >= CONSOLE_SESSIONS_MAX:
            del self._sessions[next(iter(self._sessions))]
        session_id = random_token(self._rng) + random_token(self._rng)
        self._sessions[session_id] = _Session(random_token(self._rng), now_ms, now_ms)
        return session_id

    def _is_live(self, session: _Session, now_ms: float) -> bool:
        return now_ms - session.since_ms < CONSOLE_SESSION_MS and now_ms - session.used_ms < CONSOLE_IDLE_MS
