"""Makes a node that uploads into buckets which fail, hang and recover, in virtual time."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from siltstone.metadata.buckets import RegisterBuckets, SetBucketState
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import CreateStream, OpenStream, RegisterNode
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store.memory import MemoryLog
from siltstone.model.buckets import BucketState
from siltstone.model.objects import ObjectState
from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.runtime.clock import ManualClock
from siltstone.stream_engine.settings import UploadSettings
from siltstone.stream_engine.tail.cache_block import CacheBlock, CachedBatch
from siltstone.stream_engine.upload.pipeline import UploadPipeline
from support.engine.batches import batch
from support.engine.engine_world import settled

NODE = 0


class Bucket(MemoryStore):
    """A bucket whose puts raise ``trouble``, if there is any; ``is_silent`` has them wait."""

    trouble: Exception | None = None
    is_silent = False
    puts = 0

    def put(self, key: str, buffers: Any) -> None:
        self.puts += 1
        if self.trouble is not None:
            raise self.trouble
        super().put(key, buffers)


class World:
    """A node with buckets 0 and 1, both writable, under failover."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.client = MetadataClient(MemoryLog(), self.clock, Random(1))
        self.stores = [Bucket(self.clock, str(number)) for number in range(2)]
        self.client.execute(RegisterBuckets({0: "memory:0", 1: "memory:1"}, 0))
        self.client.execute(SetBucketState(1, BucketState.WRITABLE))
        self.epoch = self.client.execute(RegisterNode(NODE, "a", "here")).node_epoch
        self.stream = self.client.execute(CreateStream(NODE, self.epoch))
        self.client.execute(OpenStream(NODE, self.epoch, self.stream, 0))
        self.failures: list[BaseException] = []
        self.offset = 0
        self.buckets = Buckets(dict(enumerate(self.stores)))
        self.pipeline = UploadPipeline(
            self, self.buckets, self, self.clock, UploadSettings(),  # type: ignore[arg-type]
            node_id=NODE, node_epoch=self.epoch, on_committed=self._committed, on_failure=self.failures.append,
        )  # fmt: skip

    @property
    def image(self) -> MetadataImage:
        return self.client.image

    async def refresh(self) -> MetadataImage:
        return self.client.refresh()

    async def execute(self, command: Any) -> Any:
        return self.client.execute(command)

    async def run(self, call: Callable[..., Any], *args: Any) -> Any:
        await asyncio.sleep(0)
        store = getattr(call, "__self__", None)
        answer = call(*args)
        if isinstance(store, Bucket) and store.is_silent:
            await asyncio.get_running_loop().create_future()
        return answer

    async def _committed(self, block: CacheBlock) -> None:
        block.commit()

    def submit(self) -> None:
        block = CacheBlock()
        one = batch(self.stream, self.offset, 1, 100)
        block.put(CachedBatch(one, encode_frame_header(one)), 100 * (self.offset + 1))
        block.seal()
        self.offset += 1
        self.pipeline.submit(block)

    @property
    def end(self) -> int:
        return self.image.streams[self.stream].end_offset

    def buckets_of(self, state: ObjectState) -> list[int]:
        found = sorted(self.image.objects.items())
        return [each.bucket_id for _, each in found if each.state is state]

    async def passing(self, until: Callable[[], bool]) -> float:
        """Lets time pass until the condition holds, at most an hour. Returns how long it took."""
        begun_ms = self.clock.monotonic_ms()
        while not until():
            assert not self.failures and self.clock.monotonic_ms() - begun_ms < 3_600_000, (
                "an hour has passed"
            )
            self.clock.advance_ms(100)
            await settled()
        return self.clock.monotonic_ms() - begun_ms
