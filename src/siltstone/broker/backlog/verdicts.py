"""The partitions that take no records because a group's backlog is over its quota. Produce asks before it appends, and
waits while a partition is held."""

import asyncio
from collections.abc import Collection, Mapping

import msgspec

from siltstone.broker.backlog.quota_rules import Backlog, Verdict
from siltstone.foundation.quantity_words import size_words
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import HELD_PRODUCE_BYTES_MAX
from siltstone.runtime.clock import Clock

PartitionKey = tuple[str, int]
"""Topic id and index."""


class BacklogQuotaExceeded(InvalidRequest):
    """A group's backlog is over its quota, and the topic's policy is to refuse records then."""

    def __init__(self, backlog: Backlog) -> None:
        super().__init__(
            f"{size_words(backlog.size_bytes)} wait for group {backlog.group}, more than siltstone.backlog.quota.bytes "
            f"({backlog.quota_bytes}): let the group catch up, delete the group, or raise the quota"
        )


class Sentence(msgspec.Struct, frozen=True):
    """The verdict on a partition, and the backlog that is the reason for it."""

    verdict: Verdict
    backlog: Backlog


class QuotaVerdicts:
    """Written by ``quota_check``. ``held_bytes`` is the size of the produce requests that wait here."""

    def __init__(self) -> None:
        self._sentences: Mapping[PartitionKey, Sentence] = {}
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._is_ending = False
        self.held_bytes = 0

    def pronounce(self, sentences: Mapping[PartitionKey, Sentence]) -> None:
        """Replaces all sentences, and wakes every request that waits, to check its partitions again."""
        self._sentences = sentences
        waiting, self._waiting = self._waiting, {}
        for changed in waiting:
            _resolve(changed)

    @property
    def are_there(self) -> bool:
        return bool(self._sentences)

    def end_waits(self) -> None:
        """Is called when the node is closing: requests that wait are answered, and later ones do not wait."""
        self._is_ending = True
        self.pronounce(self._sentences)

    def check(self, topic_id: str, partition: int) -> None:
        """Raises BacklogQuotaExceeded."""
        sentence = self._sentences.get((topic_id, partition)) if self._sentences else None
        if sentence is not None and sentence.verdict is Verdict.REFUSE:
            raise BacklogQuotaExceeded(sentence.backlog)

    def on(self, topic_id: str, partition: int) -> Sentence | None:
        return self._sentences.get((topic_id, partition))

    def holds(self, topic_id: str, partition: int) -> bool:
        sentence = self._sentences.get((topic_id, partition))
        return sentence is not None and sentence.verdict is Verdict.HOLD

    async def wait_while_held(
        self, keys: Collection[PartitionKey], size_bytes: int, duration_ms: float, clock: Clock
    ) -> None:
        """Returns when none of the partitions is held, or the time has passed. Returns at once when too many bytes wait
        already."""
        if self._is_ending or self.held_bytes + size_bytes > HELD_PRODUCE_BYTES_MAX:
            return
        deadline_ms = clock.monotonic_ms() + duration_ms
        self.held_bytes += size_bytes
        try:
            while self._holds_any(keys) and (left_ms := deadline_ms - clock.monotonic_ms()) > 0:
                await self._change(left_ms, clock)
        finally:
            self.held_bytes -= size_bytes

    def _holds_any(self, keys: Collection[PartitionKey]) -> bool:
        return not self._is_ending and any(self.holds(*key) for key in keys)

    async def _change(self, duration_ms: float, clock: Clock) -> None:
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[changed] = None
        timer = clock.call_after_ms(duration_ms, lambda: _resolve(changed))
        try:
            await changed
        finally:
            timer.cancel()
            self._waiting.pop(changed, None)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
