"""Answers the flushes that programs ask of this node through the metadata (``metadata.flushes``): all appended batches
are sealed, uploaded and committed, and then the answer is written.

While an erasure is pending, the node then also drops what it keeps of the uploaded batches, so that it neither serves
their records nor has them in files.

One flush runs at a time. Questions that arrive meanwhile are answered by the next flush, so a program that asks all the
time causes small objects, but no queue.
"""

import asyncio
import logging

from siltstone.metadata.flushes import AnswerFlush, flushes_of
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.service import MetadataService, ServiceClosed
from siltstone.model.errors import Unavailable
from siltstone.offline.erasures import has_pending
from siltstone.runtime.clock import Clock
from siltstone.stream_engine.engine import StreamEngine

log = logging.getLogger(__name__)

RETRY_MS = 1_000


class FlushRequests:
    """Answers the questions to the node of ``engine``."""

    def __init__(self, engine: StreamEngine, metadata: MetadataService, clock: Clock) -> None:
        self._engine = engine
        self._metadata = metadata
        self._clock = clock
        self._asked = self._answered = 0
        self._is_asked = asyncio.Event()

    async def answer(self) -> None:
        """Answers until it is cancelled, or this life of the node is over. If a flush fails, the engine has failed,
        too."""
        stop_following = self._metadata.add_listener(self._follow)
        try:
            self._follow(self._metadata.image)
            while True:
                await self._is_asked.wait()
                self._is_asked.clear()
                while (number := self._asked) > self._answered:
                    await self._engine.flush()
                    if has_pending(self._metadata.image):
                        await self._engine.forget_uploaded()
                    await self._write(number)
        except ServiceClosed:
            return
        except Refusal as refusal:
            log.warning("node %d answers no more flushes: %s", self._engine.node_id, refusal)
        finally:
            stop_following()

    def _follow(self, image: MetadataImage) -> None:
        flushes = flushes_of(image, self._engine.node_id)
        self._asked, self._answered = flushes.asked, max(self._answered, flushes.answered)
        if self._asked > self._answered:
            self._is_asked.set()

    async def _write(self, number: int) -> None:
        """Writes the answer. It is written again while the node is suspended or the metadata log cannot be reached.
        Raises ServiceClosed, and the refusals of AnswerFlush that do not pass."""
        answer = AnswerFlush(self._engine.node_id, self._engine.node_epoch, number)
        while True:
            try:
                await self._metadata.execute(answer)
            except ServiceClosed:
                raise
            except Unavailable as trouble:
                log.warning("the answer to a flush could not be written, the node tries again: %s", trouble)
                await self._clock.sleep_ms(RETRY_MS)
            else:
                self._answered = max(self._answered, number)
                return
