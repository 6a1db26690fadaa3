"""A batch of a sink is begun once and ended once, whoever asks and however often."""

import msgspec
import pytest

from siltstone.metadata import sinks
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.refusals import (
    CommandMalformed,
    SinkBatchBehind,
    SinkBatchUnfinished,
    SinkChanged,
    SinkOfAnotherQuery,
    SinkPartsTooOld,
    SinkTakenOver,
    SinkUnknown,
    TooManySinks,
)
from siltstone.metadata.sinks import (
    STAGED_MS_MAX,
    BeginSinkBatch,
    CommitSinkBatch,
    SinkBatch,
    SinkState,
    SinkTarget,
    decode_sink,
    encode_sink,
    sink_of,
    sinks_of,
)
from siltstone.metadata.store.memory import MemoryLog
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness

QUERY = "5b0f"


class World:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.client = MetadataClient(MemoryLog(), self.clock, seeded_randomness(1))

    def begin(
        self,
        batch_id: int,
        driver: str = "a",
        query: str = QUERY,
        staged_ms: int | None = None,
        **other: object,
    ) -> SinkBatch:
        batch = SinkBatch(
            "relay", query, batch_id, SinkState.INTENT, driver, 7, f"staging/s/{batch_id}/m", 99, 0, "value binary",
            (SinkTarget(3, 0, 100 + batch_id),),
        )  # fmt: skip
        batch = msgspec.structs.replace(batch, **other)
        staged_ms = self.clock.now_ms() if staged_ms is None else staged_ms
        return self.client.execute(BeginSinkBatch("out", batch, staged_ms))

    def commit(self, batch_id: int, driver: str = "a", next_sequence: int = 10, **other: bool) -> None:
        targets = (SinkTarget(3, next_sequence, 100),)
        self.client.execute(CommitSinkBatch("out", batch_id, driver, targets, **other))

    @property
    def standing(self) -> SinkBatch:
        found = sink_of(self.client.image, "out")
        assert found is not None
        return found


def test_sw2_a_batch_is_an_intent_then_done_and_its_repetition_changes_nothing() -> None:
    world = World()
    assert world.begin(0).state is SinkState.INTENT
    version = world.client.image.version
    assert world.begin(0) == world.standing and world.client.image.version == version
    world.commit(0)
    assert world.standing.state is SinkState.DONE and world.standing.manifest == ""
    version = world.client.image.version
    assert world.begin(0, driver="b").state is SinkState.DONE
    world.commit(0, driver="b")  # asked again by whoever: it is done
    assert world.client.image.version == version


def test_the_next_batch_goes_on_with_the_same_producer_and_its_sequences() -> None:
    world = World()
    world.begin(0)
    world.commit(0, next_sequence=10)
    begun = world.begin(1, producer_id=8, targets=(SinkTarget(3, 0, 150), SinkTarget(4, 0, 5)))
    assert begun.producer_id == 7
    assert begun.targets == (SinkTarget(3, 10, 150), SinkTarget(4, 0, 5))
    world.commit(1, next_sequence=12)
    world.begin(2, targets=())
    assert world.standing.targets == (SinkTarget(3, 12, 100), SinkTarget(4, 0, 5)), "none is forgotten"


def test_sw5_an_intent_is_finished_by_the_driver_that_resumed_it_last() -> None:
    world = World()
    world.begin(5)
    resumed = world.begin(5, driver="b", manifest="other", manifest_crc=1, producer_id=9)
    assert (resumed.driver, resumed.manifest, resumed.producer_id) == ("b", "staging/s/5/m", 7)
    with pytest.raises(SinkTakenOver, match="another process has resumed batch 5 of sink out"):
        world.commit(5, driver="a")
    world.commit(5, driver="b")
    world.commit(5, driver="a")  # SW26: it wakes later; the batch is done


def test_sw24_a_batch_behind_or_of_another_query_is_refused() -> None:
    world = World()
    world.begin(7)
    world.commit(7)
    with pytest.raises(SinkOfAnotherQuery, match="sink out belongs to query 5b0f, whose newest batch is 7"):
        world.begin(0, query="other")
    assert world.begin(7).state is SinkState.DONE
    with pytest.raises(SinkBatchBehind, match="batch 3 of sink out is behind batch 7"):
        world.begin(3)
    world.commit(3)  # a batch before the one that stands is done


def test_an_intent_holds_up_the_next_batch_until_it_is_finished_or_abandoned() -> None:
    world = World()
    world.begin(1)
    with pytest.raises(SinkBatchUnfinished, match="siltstone sinks abandon out"):
        world.begin(2)
    with pytest.raises(SinkChanged, match="columns value binary"):
        world.begin(1, schema="value binary,key binary")
    with pytest.raises(SinkUnknown):
        world.commit(2)
    world.begin(1, driver="b")
    world.commit(1, driver="b", is_abandoned=True)
    assert world.standing.state is SinkState.ABANDONED
    assert (world.standing.producer_id, world.standing.targets) == (-1, ()), "how far it came is not known"
    assert world.begin(1).state is SinkState.ABANDONED
    assert world.begin(2, producer_id=9).producer_id == 9


def test_what_may_be_deleted_soon_or_cannot_be_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.clock.advance_ms(STAGED_MS_MAX + 1)
    with pytest.raises(SinkPartsTooOld, match="12 hours"):
        world.begin(0, staged_ms=0)
    world.begin(0)
    world.clock.advance_ms(STAGED_MS_MAX + 1)
    assert world.begin(0, staged_ms=0, driver="b").driver == "b", "an intent keeps its parts"
    with pytest.raises(CommandMalformed, match="cannot be the name of a sink"):
        world.client.execute(BeginSinkBatch("a/b", world.standing, 0))
    monkeypatch.setattr(sinks, "SINKS_MAX", 1)
    monkeypatch.setattr("siltstone.metadata.decisions.sinks.SINKS_MAX", 1)
    with pytest.raises(TooManySinks, match="siltstone sinks forget"):
        world.client.execute(BeginSinkBatch("another", world.standing, world.clock.now_ms()))
    assert list(sinks_of(world.client.image)) == ["out"]


def test_sw25_a_record_is_small_whatever_the_number_of_tasks() -> None:
    targets = tuple(SinkTarget(2**40 + number, 2**31 - 1, 2**45) for number in range(100))
    batch = SinkBatch(
        "relay", "q" * 36, 2**40, SinkState.INTENT, "d" * 32, 2**40, "staging/" + "s" * 100, 2**32 - 1, 2**45,
        "key binary,value binary,headers array<struct<key:string,value:binary>>", targets,
    )  # fmt: skip
    encoded = encode_sink(batch)
    assert len(encoded) < 16_384 + 26 * 100
    assert decode_sink(encoded) == batch


def test_a_record_of_another_version_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="record of version 2"):
        decode_sink(msgspec.msgpack.encode((2, "relay")))
