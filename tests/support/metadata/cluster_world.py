"""Several nodes that beat and look at each other, in one thread: one log, one board, and a clock for each node.

A node that is frozen (SIGSTOP) is one whose clock stands still; when it is thawed, its clock jumps, as a monotonic
clock does. The wall clocks of the nodes may differ by hours.
"""

import asyncio

from siltstone.cluster.membership import BoardCalls, Membership
from siltstone.cluster.suspicion import OwnLease
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import RegisterNode
from siltstone.metadata.entities import NodeLife, NodeListener
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.leases.board import Beat, BoardUnavailable, MemoryBoard
from siltstone.metadata.log_entry import decode_entry
from siltstone.metadata.records import Record
from siltstone.metadata.service import MetadataService
from siltstone.metadata.store.memory import MemoryLog
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness

STEP_MS = 100
TURNS = 60
"""Enough for a round, a command and its answer."""


class BoardOfAll(MemoryBoard):
    """``is_out`` makes every call of every node fail."""

    is_out = False

    def beat(self, beat: Beat) -> None:
        self._fail_if_out()
        super().beat(beat)

    def beats(self) -> tuple[Beat, ...]:
        self._fail_if_out()
        return super().beats()

    def _fail_if_out(self) -> None:
        if self.is_out:
            raise BoardUnavailable("the board is out")


class HeldCalls(InlineCalls):
    """Calls that do not return while ``is_held``."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.free.set()

    async def run(self, call, *args, **kwargs):
        await self.free.wait()
        return await super().run(call, *args, **kwargs)


class ClusterNode:
    def __init__(self, node_id: int, log: MemoryLog, board: MemoryBoard, wall_ms: int) -> None:
        self.clock = ManualClock(wall_ms)
        self.is_frozen = False
        self.missed_ms = 0
        self.lost: list[BaseException] = []
        self.metadata_calls, self.board_calls = HeldCalls(), HeldCalls()
        client = MetadataClient(log, self.clock, seeded_randomness(node_id))
        incarnation = f"life of {node_id}"
        listeners = (NodeListener("PLAINTEXT", f"host-{node_id}", 9092),)
        epoch = client.execute(
            RegisterNode(node_id, incarnation, f"wal-of-{node_id}", listeners=listeners)
        ).node_epoch
        self.life = NodeLife(node_id, epoch, incarnation)
        self.metadata = MetadataService(client, self.metadata_calls, self.clock)
        self.membership = Membership(
            BoardCalls(board, self.board_calls, self.clock),
            self.metadata,
            self.clock,
            OwnLease(self.clock.monotonic_ms),
            self.life,
            self.lost.append,
        )


class ClusterWorld:
    def __init__(self, count: int, wall_ms: tuple[int, ...] = ()) -> None:
        self.log, self.board = MemoryLog(), BoardOfAll()
        walls = wall_ms or (1_700_000_000_000,) * count
        self.nodes = [ClusterNode(node_id, self.log, self.board, walls[node_id]) for node_id in range(count)]

    async def __aenter__(self) -> "ClusterWorld":
        for node in self.nodes:
            await node.metadata.start()
            await node.membership.start()
        await self.passes(2_000)
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes:
            node.metadata_calls.free.set()
            node.board_calls.free.set()
            await node.membership.close()
            await node.metadata.close()

    async def passes(self, duration_ms: int) -> None:
        for _ in range(duration_ms // STEP_MS):
            for node in self.nodes:
                if node.is_frozen:
                    node.missed_ms += STEP_MS
                else:
                    node.clock.advance_ms(STEP_MS)
            for _ in range(TURNS):
                await asyncio.sleep(0)

    def freeze(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.nodes[node_id].is_frozen = True

    async def thaw(self, *node_ids: int) -> None:
        for node_id in node_ids:
            node = self.nodes[node_id]
            node.is_frozen = False
            node.clock.advance_ms(node.missed_ms)
            node.missed_ms = 0
        for _ in range(TURNS):
            await asyncio.sleep(0)

    @property
    def image(self) -> MetadataImage:
        return max((node.metadata.image for node in self.nodes), key=lambda image: image.version)

    def written(self, kind: type[Record]) -> list[Record]:
        entries = self.log.read_after(0, 10_000)
        return [
            record for _, entry in entries for record in decode_entry(entry).records if type(record) is kind
        ]
