"""An upload pipeline whose commands and puts are held until a test lets them go."""

import asyncio
from random import Random

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import (
    CommitUpload,
    CreateStream,
    OpenStream,
    PrepareObjects,
    RegisterNode,
)
from siltstone.metadata.store.memory import MemoryLog
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


class Gate:
    """Events by name, in order; those of a held name wait."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._held: dict[str, asyncio.Future[None]] = {}

    def hold(self, *names: str) -> None:
        for name in names:
            self._held[name] = asyncio.get_running_loop().create_future()

    async def release(self, name: str) -> None:
        self._held.pop(name).set_result(None)
        await settled()

    async def refuse(self, name: str, error: Exception) -> None:
        self._held.pop(name).set_exception(error)
        await settled()

    async def passes(self, name: str) -> None:
        self.events.append(name)
        if name in self._held:
            await self._held[name]


class Pipeline:
    """The pipeline with its surroundings. Commands are numbered as they are sent, puts by the id of the object."""

    def __init__(self, **settings: int) -> None:
        self.gate = Gate()
        self.clock = ManualClock()
        self.log = MemoryLog()
        self.client = MetadataClient(self.log, self.clock, Random(1))
        self.store = MemoryStore(self.clock)
        self.epoch = self.client.execute(RegisterNode(NODE, "a", "here")).node_epoch
        self.streams = [self._open_stream() for _ in range(3)]
        self.failures: list[BaseException] = []
        self._numbers = {"prepare": 0, "commit": 0, "put": 0}
        self.pipeline = UploadPipeline(
            self, Buckets({0: self.store}), self, self.clock, UploadSettings(**settings),
            node_id=NODE, node_epoch=self.epoch, on_committed=self._committed, on_failure=self.failures.append,
        )  # fmt: skip

    @property
    def events(self) -> list[str]:
        return self.gate.events

    @property
    def image(self):
        return self.client.image

    async def refresh(self):
        return self.client.refresh()

    def _open_stream(self) -> int:
        stream_id = self.client.execute(CreateStream(NODE, self.epoch))
        self.client.execute(OpenStream(NODE, self.epoch, stream_id, 0))
        return stream_id

    async def execute(self, command):
        kind = {PrepareObjects: "prepare", CommitUpload: "commit"}[type(command)]
        self._numbers[kind] += 1
        name = f"{kind} {self._numbers[kind]}"
        await self.gate.passes(name)
        answer = self.client.execute(command)
        self.events.append(f"{name} done")
        return answer

    async def run(self, call, *args):
        if getattr(call, "__name__", "") == "put":
            self._numbers["put"] += 1
            await self.gate.passes(f"put {self._numbers['put']}")
        await asyncio.sleep(0)
        return call(*args)

    async def _committed(self, block: CacheBlock) -> None:
        await self.gate.passes(f"trim {block.end_position}")
        block.commit()

    def block(self, offset: int, position: int, stream: int = 0, payload_bytes: int = 100) -> CacheBlock:
        block = CacheBlock()
        one = batch(self.streams[stream], offset, 1, payload_bytes)
        block.put(CachedBatch(one, encode_frame_header(one)), position)
        block.seal()
        return block

    def end_of(self, stream: int = 0) -> int:
        return self.client.image.streams[self.streams[stream]].end_offset


def run(scenario) -> None:
    async def main() -> None:
        await asyncio.wait_for(scenario(), 60)

    asyncio.run(main())
