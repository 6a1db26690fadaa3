"""The wait for the owners' uploads: which nodes it asks, when it ends, and its error when it does not."""

import pytest

from siltstone.metadata.commands import CloseStream, FenceNode, OpenStream
from siltstone.metadata.flushes import AnswerFlush, flushes_of
from siltstone.runtime.clock import ManualClock
from siltstone.scanning import flushing as module
from siltstone.scanning.failures import TailNotReadable
from siltstone.scanning.flushing import FLUSH_LOOK_INTERVAL_MS, FLUSH_MS_MAX, flush_tails
from siltstone.scanning.planning import ScanPartition
from support.maintenance.keyed_world import KeyedWorld


class World:
    """``answers``: how the node answers; each look at the metadata is one call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = KeyedWorld()
        self.streams = self.store.topic(partitions=2, cleanup_policy="delete")
        self.looks = 0
        self.at_look: dict[int, object] = {}
        clock = self.store.clock
        monkeypatch.setattr(ManualClock, "block_ms", lambda _, ms: self._pass(clock, ms))

    def _pass(self, clock: ManualClock, ms: float) -> None:
        assert ms == FLUSH_LOOK_INTERVAL_MS
        clock.advance_ms(ms)
        self.looks += 1
        action = self.at_look.get(self.looks)
        if callable(action):
            action()

    def partitions(self) -> list[ScanPartition]:
        image = self.store.image
        topic = self.store.topic_named()
        return [ScanPartition(topic, at, image.streams[each]) for at, each in enumerate(self.streams)]

    def close(self, stream: int) -> None:
        self.store.metadata.execute(CloseStream(0, 1, stream, 0))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_the_owner_is_asked_once_for_all_partitions_and_its_answer_ends_the_wait(world: World) -> None:
    world.at_look[3] = lambda: world.store.metadata.execute(AnswerFlush(0, 1, 1))
    image = flush_tails(world.store.another_context(), world.partitions())
    assert (world.looks, flushes_of(image, 0).asked, flushes_of(image, 0).answered) == (3, 1, 1)


def test_closed_partitions_are_not_waited_for(world: World) -> None:
    for stream in world.streams:
        world.close(stream)
    version = world.store.image.version
    flush_tails(world.store.another_context(), world.partitions())
    assert (world.looks, world.store.image.version) == (0, version), "nothing is asked, nothing is written"


def test_streams_that_are_closed_meanwhile_are_committed(world: World) -> None:
    def first() -> None:
        world.close(world.streams[0])

    def second() -> None:
        world.close(world.streams[1])
        world.store.metadata.execute(OpenStream(0, 1, world.streams[1], 1))

    world.at_look.update({1: first, 4: second})
    flush_tails(world.store.another_context(), world.partitions())
    assert world.looks == 4, "one is closed, and the other was opened again since"


def test_an_owner_that_does_not_answer_is_named_at_the_limit(world: World) -> None:
    named = r"node 0 has 2 partitions open .*not uploaded them within 30 s"
    with pytest.raises(TailNotReadable, match=named) as caught:
        flush_tails(world.store.another_context(), world.partitions())
    assert (caught.value.node_id, caught.value.partitions) == (0, ["t-0", "t-1"])
    assert world.looks == FLUSH_MS_MAX // FLUSH_LOOK_INTERVAL_MS


def test_an_owner_that_is_not_live_is_named_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.store.metadata.execute(FenceNode(0, 1))
    with pytest.raises(TailNotReadable, match="it cannot be asked: node 0 is silent"):
        flush_tails(world.store.another_context(), world.partitions())
    assert world.looks == 0
    asked: list[int] = []
    monkeypatch.setattr(module, "check_metadata_is_newest", lambda _: asked.append(1))
    with pytest.raises(TailNotReadable):
        flush_tails(world.store.another_context(), world.partitions())
    assert asked == [1], "rule 11: the marks in the buckets come first"
