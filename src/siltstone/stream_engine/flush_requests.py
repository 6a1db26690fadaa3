"""Answers the flushes that programs ask of this node through the metadata (``metadata.flushes``): everything that was
appended is sealed, uploaded and committed, and then the answer is written.

One flush runs at a time. Questions that come meanwhile are answered by the next one, so a program that asks all the
time makes small objects, and no queue.
"""

import logging
from collections.abc import Awaitable, Callable

from siltstone.metadata.flushes import AnswerFlush, flushes_of
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.service import MetadataService, ServiceClosed
from siltstone.model.errors import Unavailable
from siltstone.runtime.clock import Clock
from siltstone.runtime.tasks import TaskGroup

log = logging.getLogger(__name__)

RETRY_MS = 1_000


class FlushRequests:
    """``flush`` commits everything; ``tasks`` are the engine's, so a failed flush fails the engine."""

    def __init__(
        self,
        flush: Callable[[], Awaitable[None]],
        metadata: MetadataService,
        clock: Clock,
        tasks: TaskGroup,
        node_id: int,
        node_epoch: int,
    ) -> None:
        self._flush = flush
        self._metadata = metadata
        self._clock = clock
        self._tasks = tasks
        self._node_id = node_id
        self._node_epoch = node_epoch
        self._asked = self._answered = 0
        self._is_running = False

    def follow(self, image: MetadataImage) -> None:
        """Called with each new image."""
        flushes = flushes_of(image, self._node_id)
        self._asked, self._answered = flushes.asked, max(self._answered, flushes.answered)
        if self._asked > self._answered and not self._is_running:
            self._is_running = True
            self._tasks.start("flush", self._answer())

    async def _answer(self) -> None:
        try:
            while (number := self._asked) > self._answered:
                await self._flush()
                try:
                    await self._metadata.execute(AnswerFlush(self._node_id, self._node_epoch, number))
                except ServiceClosed:
                    return
                except Unavailable as trouble:  # a suspended node resumes, an absent metadata log comes back
                    log.warning(
                        "the answer to a flush could not be written, the node tries again: %s", trouble
                    )
                    await self._clock.sleep_ms(RETRY_MS)
                    continue
                except Refusal as refusal:  # this life of the node is over
                    log.warning("the answer to a flush was refused: %s", refusal)
                    return
                self._answered = max(self._answered, number)
        finally:
            self._is_running = False
