"""The admin listeners answer four paths: ``/metrics``, ``/livez``, ``/readyz`` and, of a broker, ``/clients``.

``/livez`` checks nothing: an answer shows that the event loop runs. ``/readyz`` is 200 when the process can do its
work, and otherwise 503 with a reason in each line. Clients that accept only JSON get both as JSON. ``/clients`` is the
JSON that ``siltstone clients`` shows. ``access`` says who sees what.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Protocol

import msgspec

from siltstone.runtime.clock import Clock
from siltstone.server.admin.access import AdminAccess
from siltstone.server.admin.addresses import may_be_called
from siltstone.server.admin.exposition import TextFormat
from siltstone.server.admin.http_request import HttpAnswer, HttpRequest, RequestRefused
from siltstone.server.admin.process_source import ProcessSource
from siltstone.server.admin.scrape import Collected, MetricSource, Scrapes
from siltstone.server.network.statistics import ClientConnection

JSON = "application/json"
PATHS = frozenset({"/metrics", "/livez", "/readyz", "/clients"})
STATES = ("starting", "running", "draining", "failed", "closed")


class ClientsReport(msgspec.Struct, frozen=True):
    """The JSON of ``/clients``. ``connections`` counts all of them; ``clients`` are the newest ones."""

    node_id: int
    connections: int
    clients: list[ClientConnection]


class Observed(Protocol):
    """The broker or the maintenance service of the process."""

    @property
    def sources(self) -> Sequence[MetricSource]: ...

    @property
    def state(self) -> str:
        """One of STATES."""
        ...

    @property
    def reasons(self) -> list[str]:
        """Why it is not ready; empty if it is."""
        ...

    def clients(self) -> ClientsReport | None:
        """Who is connected; None if the process has no clients."""
        ...


class ReadinessReport(msgspec.Struct, frozen=True):
    """The JSON of ``/readyz``."""

    ready: bool
    state: str
    reasons: list[str]


class Endpoints:
    """``observed`` is None until there is something to observe; ``is_draining`` from the moment at which it is to
    end."""

    def __init__(self, clock: Clock, hosts: Collection[str], access: AdminAccess | None = None) -> None:
        self._hosts = hosts
        self.access = access or AdminAccess()
        self.observed: Observed | None = None
        self.is_draining = False
        self.process = ProcessSource(lambda: not self.reasons, clock)
        self.scrapes = Scrapes(self._sources, clock)

    @property
    def state(self) -> str:
        if self.observed is None:
            return "starting"
        state = self.observed.state
        return "draining" if self.is_draining and state == "running" else state

    @property
    def reasons(self) -> list[str]:
        if self.observed is None:
            return ["the process is starting"]
        return [*(["the process is stopping"] if self.is_draining else []), *self.observed.reasons]

    def is_host(self, host: str) -> bool:
        """Returns whether a request may name this host."""
        return may_be_called(host, self._hosts)

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Raises RequestRefused."""
        if not self.is_host(request.host):
            raise RequestRefused(
                421,
                f"the host {request.host} is not one of this listener: see the setting admin.allowed_hosts",
            )
        match request.path:
            case "/metrics":
                await self.access.check(request)
                text_format = TextFormat.OPENMETRICS if request.wants_openmetrics else TextFormat.PROMETHEUS
                return HttpAnswer(200, await self.scrapes.text(text_format), text_format.value)
            case "/livez":
                return HttpAnswer(200, b"ok\n")
            case "/readyz":
                return self._readiness(request, has_reasons=await self._is_let_in(request))
            case "/clients":
                await self.access.check(request)
                if self.observed is not None and (report := self.observed.clients()) is not None:
                    return HttpAnswer(200, msgspec.json.encode(report) + b"\n", JSON)
        raise RequestRefused(404, "here are /metrics, /livez and /readyz, and of a broker that runs /clients")

    async def _is_let_in(self, request: HttpRequest) -> bool:
        try:
            await self.access.check(request)
        except RequestRefused:
            return False
        return True

    def _readiness(self, request: HttpRequest, *, has_reasons: bool) -> HttpAnswer:
        reasons = self.reasons
        status = 503 if reasons else 200
        if reasons and not has_reasons:
            reasons = ["log in to see why"]
        if request.accept.lower().startswith(JSON):
            body = msgspec.json.encode(ReadinessReport(not reasons, self.state, reasons))
            return HttpAnswer(status, body + b"\n", JSON)
        lines = ["not ready", *reasons] if reasons else ["ok"]
        return HttpAnswer(status, "".join(f"{line}\n" for line in lines).encode())

    def _sources(self) -> Sequence[MetricSource]:
        return (
            self.process,
            StateSource(self),
            *(self.observed.sources if self.observed is not None else ()),
        )


class StateSource:
    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        for state in STATES:
            collected.add("state", int(state == self._endpoints.state), state)
        yield
