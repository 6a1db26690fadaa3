"""The certificates of all listeners with TLS, which are read again while the node runs.

The files are looked at each minute, and at once when ``reload`` is called (SIGHUP): Kubernetes and renewing programs
replace them. Changed files make a new context, in a thread; only if they load, match and are valid does the listener
take it. Otherwise it keeps what it has, and the log says why. Open connections keep theirs.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import msgspec

from siltstone.model.limits import DAY_MS, MINUTE_MS
from siltstone.runtime.blocking import BlockingCalls, InlineCalls, ThreadedCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.network.listener_settings import InvalidListenerSetting, ListenerSettings
from siltstone.server.network.tls import ServerTls, fingerprint_of, server_tls

LOOK_INTERVAL_MS = 1 * MINUTE_MS
EXPIRES_SOON_MS = 14 * DAY_MS
WARNED_INTERVAL_MS = 1 * DAY_MS

log = logging.getLogger(__name__)


class CertificateStatistics(msgspec.Struct, frozen=True):
    """``expires_ms``: listener → when its certificate expires, in ms since 1970."""

    expires_ms: dict[str, int]
    reloads: int
    reload_failures: int


class Certificates:
    """Listener name → what new connections get. Raises InvalidListenerSetting when the files cannot be used."""

    def __init__(self, settings: Mapping[str, ListenerSettings], clock: Clock) -> None:
        self._settings = dict(settings)
        self._clock = clock
        self._serving = {name: server_tls(name, each, clock.now_ms()) for name, each in settings.items()}
        self._refused: dict[str, str] = {}
        self._tasks = TaskGroup("certificates", lambda _: None)
        self._warned_ms: dict[str, int] = {}
        self._reloads = self._reload_failures = 0
        self._calls: BlockingCalls = InlineCalls()
        self._reading = asyncio.Lock()
        self._warn_of_expiry()

    def __bool__(self) -> bool:
        return bool(self._serving)

    def of(self, listener: str) -> ServerTls | None:
        """None: the listener does not encrypt."""
        return self._serving.get(listener)

    def statistics(self) -> CertificateStatistics:
        return CertificateStatistics(
            {name: each.certificate.not_after_ms for name, each in self._serving.items()},
            self._reloads,
            self._reload_failures,
        )

    def watch(self, calls: BlockingCalls) -> None:
        """Begins to look at the files, until ``close``."""
        self._calls = calls
        self._tasks.start("look", self._look_for_ever())

    async def _look_for_ever(self) -> None:
        while True:
            await self._clock.sleep_ms(LOOK_INTERVAL_MS)
            await self.reload()

    def reload_soon(self) -> None:
        """Reads the files again now, without waiting for it. Called on the event loop."""
        self._tasks.start("reload", self.reload())

    async def close(self) -> None:
        await self._tasks.cancel()

    async def reload(self) -> None:
        """Reads the files again, in a thread, and takes the files that have changed and can be used. One reading ends
        before the next one begins: two would take the same new files twice."""
        async with self._reading:
            await self._read()

    async def _read(self) -> None:
        for name, settings in self._settings.items():
            try:
                changed = await self._calls.run(self._changed, name, settings)
            except InvalidListenerSetting as refusal:
                self._refuse(name, refusal)
            else:
                self._refused.pop(name, None)
                if changed is not None:
                    self._take(name, changed)
        self._warn_of_expiry()

    def _changed(self, name: str, settings: ListenerSettings) -> ServerTls | None:
        """Runs in a thread. Raises InvalidListenerSetting."""
        if fingerprint_of(name, settings) == self._serving[name].fingerprint:
            return None
        return server_tls(name, settings, self._clock.now_ms())

    def _refuse(self, name: str, refusal: InvalidListenerSetting) -> None:
        """Counts and logs a refusal once, however often the same files are looked at."""
        if self._refused.get(name) != str(refusal):
            self._refused[name] = str(refusal)
            self._reload_failures += 1
            log.error("%s; listener %s keeps the certificate that it has", refusal, name)

    def _take(self, name: str, changed: ServerTls) -> None:
        before, now = self._serving[name].certificate, changed.certificate
        self._serving[name] = changed
        self._reloads += 1
        self._warned_ms.pop(name, None)
        log.info("listener %s has new certificate files for new connections", name)
        if (before.owner, set(before.hosts)) != (now.owner, set(now.hosts)):
            log.warning(
                "the new certificate of listener %s is of another name: %s for %s, before %s for %s",
                name, now.owner, ", ".join(now.hosts), before.owner, ", ".join(before.hosts),
            )  # fmt: skip

    def _warn_of_expiry(self) -> None:
        now_ms = self._clock.now_ms()
        for name, each in self._serving.items():
            left_ms = each.certificate.not_after_ms - now_ms
            if left_ms >= EXPIRES_SOON_MS or now_ms - self._warned_ms.get(name, -DAY_MS) < WARNED_INTERVAL_MS:
                continue
            self._warned_ms[name] = now_ms
            words = f"expires in {left_ms // DAY_MS} days" if left_ms > 0 else "has expired"
            log.warning("the certificate of listener %s %s: put a new one into its files", name, words)


@asynccontextmanager
async def watched_certificates(
    settings: Mapping[str, ListenerSettings], clock: Clock
) -> AsyncIterator[Certificates]:
    """Yields the certificates of listeners with TLS, which are read again while the block runs. Raises
    InvalidListenerSetting."""
    certificates = Certificates(settings, clock)
    if not certificates:
        yield certificates
        return
    calls = ThreadedCalls("certificates", 1)
    certificates.watch(calls)
    try:
        yield certificates
    finally:
        await certificates.close()
        calls.close()
