"""Reads the keys of an issuer from a file or an https URL, and reads them again: each hour; at the next token after
``read_again``; and at once, but every half minute at most, when a token names a key that is not among them.

Only the configuration says where keys are: what a token says of it (``jku``, ``x5u``) is not looked at. A redirect is
not followed, because it may lead to http, or into the network of the broker. Keys that could not be read for a day are
void: an issuer that takes a key back must not be outwaited.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from siltstone.broker.security.bearer.key_set import (
    KEY_SET_BYTES_MAX,
    IssuerKey,
    KeySetUnusable,
    parse_key_set,
)
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import HOUR_MS, SECOND_MS
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.https import HttpsNotAnswered, https_answer
from siltstone.runtime.log_limit import LogLimit
from siltstone.runtime.tasks import TaskGroup

REFRESH_MS = 1 * HOUR_MS
UNKNOWN_KEY_MS = 30 * SECOND_MS
VOID_MS = 24 * HOUR_MS

log = logging.getLogger(__name__)


class KeysNotRead(InvalidRequest):
    """The keys of an issuer could not be read from their place."""


def read_keys(place: str, authorities: str, clock: Clock) -> bytes:
    """Blocks. ``authorities``: a file in PEM with the authorities of the https server; "": as this machine knows them.
    Raises KeysNotRead."""
    if "://" in place:
        try:
            return https_answer(place, authorities, clock)
        except HttpsNotAnswered as failure:
            raise KeysNotRead(f"the keys of tokens cannot be fetched: {failure}") from failure
    try:
        with Path(place).open("rb") as file:
            return file.read(KEY_SET_BYTES_MAX + 1)
    except OSError as failure:
        raise KeysNotRead(f"the keys of tokens cannot be read from {place}: {failure.strerror}") from failure


class IssuerKeys:
    """The keys at one place. ``calls`` reads them in a thread of its own: a server that does not answer holds nothing
    else. ``read`` is replaced in tests."""

    def __init__(
        self,
        place: str,
        clock: Clock,
        calls: BlockingCalls,
        authorities: str = "",
        read: Callable[[str, str, Clock], bytes] = read_keys,
    ) -> None:
        self._place = place
        self._authorities = authorities
        self._clock = clock
        self._calls = calls
        self._read = read
        self._limit = LogLimit(clock)
        self._tasks = TaskGroup("oauth-keys", lambda _: None)
        self._keys: dict[str, IssuerKey] = {}
        self._read_ms = self._asked_ms = float("-inf")
        self._wanted = self._fulfilled = 0
        """The number of calls of ``read_again``, now and when the keys were read."""
        self._reading: asyncio.Task[None] | None = None

    async def key(self, key_id: str | None) -> IssuerKey | None:
        """Returns the key of a token; None if there is none. A token without a key id has the only key there is."""
        now_ms = self._clock.monotonic_ms()
        is_old = now_ms - self._read_ms >= REFRESH_MS or self._fulfilled != self._wanted
        if is_old or self._known(key_id) is None:
            if now_ms - self._asked_ms >= UNKNOWN_KEY_MS:
                self._asked_ms = now_ms
                self._reading = self._tasks.start("oauth-keys", self._renew())
            if self._reading is not None:
                await asyncio.shield(self._reading)
        if self._clock.monotonic_ms() - self._read_ms >= VOID_MS:
            return None
        return self._known(key_id)

    def read_again(self) -> None:
        """Lets the next token wait for the keys as they are now: a key that the issuer took back is void at once. If
        the keys cannot be read, the known ones stay."""
        self._wanted += 1
        self._asked_ms = float("-inf")

    def _known(self, key_id: str | None) -> IssuerKey | None:
        if key_id is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(key_id)

    async def _renew(self) -> None:
        wanted = self._wanted
        try:
            content = await self._calls.run(self._read, self._place, self._authorities, self._clock)
            self._keys = parse_key_set(content, self._place)
        except (KeysNotRead, KeySetUnusable) as failure:
            if self._limit.is_due("keys"):
                log.warning("%s. The keys that are known stay for %d hours", failure, VOID_MS // HOUR_MS)
        else:
            self._read_ms, self._fulfilled = self._clock.monotonic_ms(), wanted

    async def close(self) -> None:
        await self._tasks.cancel()
