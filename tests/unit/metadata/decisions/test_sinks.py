"""A batch of a sink is begun once and ended once, whichever driver asks and however often."""

import msgspec
import pytest

from siltstone.metadata import sinks
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import CloseStream, CreateStream, OpenStream, PrepareObjects, RegisterNode
from siltstone.metadata.entities import SINK_NODE, OwnerRange, StreamMetadata, StreamState
from siltstone.metadata.records import StreamOpened
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
    OBJECTS,
    RELAY,
    STAGED_MS_MAX,
    TRANSACTION,
    BeginSinkBatch,
    CommitSinkBatch,
    SinkBatch,
    SinkState,
    SinkTarget,
    StreamLoad,
    decode_sink,
    encode_sink,
    sink_of,
    sinks_of,
)
from siltstone.metadata.store.memory import MemoryLog
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.metadata_world import MetadataWorld, new_object

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
    world.commit(0, driver="b")  # any driver may ask again: the batch is done
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
    world.commit(5, driver="a")  # SW26: the driver wakes later; the batch is done


def test_sw24_a_batch_behind_or_of_another_query_is_refused() -> None:
    world = World()
    world.begin(7)
    world.commit(7)
    with pytest.raises(SinkOfAnotherQuery, match="sink out belongs to query 5b0f, whose newest batch is 7"):
        world.begin(0, query="other")
    assert world.begin(7).state is SinkState.DONE
    with pytest.raises(SinkBatchBehind, match="batch 3 of sink out is behind batch 7"):
        world.begin(3)
    world.commit(3)  # a batch before the recorded one is done


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
    with pytest.raises(msgspec.ValidationError, match="record of version 3; this program reads up to 2"):
        decode_sink(msgspec.msgpack.encode((3, "relay")))


def test_sw31_each_transaction_has_a_producer_of_its_own() -> None:
    world = World()
    world.begin(0)
    world.commit(0)
    assert (world.begin(1).producer_id, world.begin(1).targets[0].next_sequence) == (7, 10)
    world.commit(1, next_sequence=20)
    begun = world.begin(2, mode=TRANSACTION, producer_id=30)
    assert begun.producer_id == 30 and begun.targets == (SinkTarget(3, 0, 102),)
    assert world.begin(2, "b", mode=TRANSACTION, producer_id=31).producer_id == 31
    assert world.begin(2, "b", mode=TRANSACTION, producer_id=31) == world.standing
    with pytest.raises(SinkTakenOver):
        world.commit(2, "a")
    world.client.execute(CommitSinkBatch("out", 2, "b", ()))
    assert world.standing.producer_id == -1 and world.standing.targets == (SinkTarget(3, 0, 102),)
    after = world.begin(3, producer_id=8)
    assert after.producer_id == 8 and after.targets == (SinkTarget(3, 0, 103),)
    with pytest.raises(SinkChanged, match="has mode relay"):
        world.begin(3, mode=TRANSACTION)


# -- loads


class Loading:
    """A sink whose batch 0 of mode OBJECTS has begun, and two closed streams; the first was opened once, and holds ten
    offsets."""

    def __init__(self) -> None:
        self.world = MetadataWorld()
        self.world.register(0)
        self.old = self.world.open_stream()
        self.world.do(self.world.upload((self.old, 0, 10)))
        self.world.do(CloseStream(0, 1, self.old, 0))
        self.new = self.world.do(CreateStream(0, 1))
        self.begin()

    def begin(self, driver: str = "a", mode: str = OBJECTS, **other: object) -> SinkBatch:
        batch = SinkBatch(
            mode, QUERY, 0, SinkState.INTENT, driver, -1, "staging/out/0/m", 9, 0, "value binary"
        )
        batch = msgspec.structs.replace(batch, **other)
        return self.world.do(BeginSinkBatch("out", batch, self.world.now_ms))

    def prepare(self, count: int = 1, driver: str = "a") -> int:
        return self.world.do(PrepareObjects(count, 3_600_000, sink_id="out", sink_driver=driver))

    def command(self, driver: str = "a", **other: object) -> CommitSinkBatch:
        """Makes the commit of five records of the old stream, and three of the new one."""
        first = self.prepare(2)
        command = CommitSinkBatch(
            "out", 0, driver, (),
            loads=(StreamLoad(self.old, 1, 10), StreamLoad(self.new, 0, 0)),
            stream_set_object=new_object(first, (self.old, 10, 13), (self.new, 0, 3)),
            stream_objects=(new_object(first + 1, (self.old, 13, 15)),),
        )  # fmt: skip
        return msgspec.structs.replace(command, **other)

    def streams(self) -> list[StreamMetadata]:
        return [self.world.image.streams[each] for each in (self.old, self.new)]


@pytest.fixture
def loading() -> Loading:
    return Loading()


def test_a_load_moves_the_ends_of_its_streams_which_are_never_open(loading: Loading) -> None:
    assert loading.world.outcome(command := loading.command()) == ("OK", 4)
    old, new = loading.streams()
    assert (old.state, old.owner, old.epoch, old.end_offset) == (StreamState.CLOSED, SINK_NODE, 1, 15)
    assert (new.state, new.owner, new.epoch, new.end_offset) == (StreamState.CLOSED, SINK_NODE, 0, 3)
    assert old.owner_ranges == (OwnerRange(0, 0, 0, 10), OwnerRange(SINK_NODE, 1, 10, 15))
    assert [held.start_offset for held in old.ranges] == [0, 10, 13]
    assert not any(isinstance(each, StreamOpened) for each in loading.world.log[-1])
    standing = sink_of(loading.world.image, "out")
    assert standing is not None and standing.state is SinkState.DONE
    assert loading.world.outcome(command) == ("OK", 0), "SW11: asked again it is done, before any fence"
    assert loading.world.outcome(msgspec.structs.replace(command, driver="b")) == ("OK", 0)
    loading.begin(batch_id=1)
    again = new_object(loading.prepare(), (loading.old, 15, 20))
    loads = (StreamLoad(loading.old, 1, 15),)
    loading.world.do(CommitSinkBatch("out", 1, "a", (), loads=loads, stream_objects=(again,)))
    assert loading.streams()[0].owner_ranges[1:] == (OwnerRange(SINK_NODE, 1, 10, 20),), (
        "one for many batches"
    )


def test_sw8_sw23_an_open_stream_refuses_a_load_and_an_epoch_from_before_it_is_fenced_once(
    loading: Loading,
) -> None:
    world, command = loading.world, loading.command()
    world.do(OpenStream(0, 1, loading.old, 1))
    version = world.image.version
    assert world.outcome(command) == ("STREAM_NOT_CLOSED", 0)
    assert world.image.version == version, "all or nothing"
    world.do(CloseStream(0, 1, loading.old, 1))
    assert world.outcome(command) == ("SINK_STREAM_MOVED", 0), "its epoch is another one now"
    first = loading.prepare(2)
    loads = (StreamLoad(loading.old, 2, 10), StreamLoad(loading.new, 0, 0))
    made = new_object(first, (loading.old, 10, 13), (loading.new, 0, 3))
    world.do(CommitSinkBatch("out", 0, "a", (), loads=loads, stream_set_object=made))
    assert world.outcome(OpenStream(0, 1, loading.old, 1)) == ("STREAM_FENCED", 0), "an epoch from before"
    assert world.do(OpenStream(0, 1, loading.old, 3)).end_offset == 13


def test_a_load_that_does_not_continue_its_streams_is_refused(loading: Loading) -> None:
    world, command = loading.world, loading.command()
    first = command.stream_objects[0].object_id
    hole = (new_object(first, (loading.old, 14, 15)),)
    assert world.outcome(msgspec.structs.replace(command, stream_objects=hole))[0] == "OFFSET_NOT_MATCHED"
    unnamed = command.loads[:1]
    assert world.outcome(msgspec.structs.replace(command, loads=unnamed))[0] == "OFFSET_NOT_MATCHED"
    moved = (StreamLoad(loading.old, 1, 9), command.loads[1])
    assert world.outcome(msgspec.structs.replace(command, loads=moved))[0] == "SINK_STREAM_MOVED"
    absent = (*command.loads, StreamLoad(99, 0, 0))
    assert world.outcome(msgspec.structs.replace(command, loads=absent))[0] == "STREAM_NOT_EXIST"
    unprepared = (new_object(first + 50, (loading.old, 13, 15)),)
    assert world.outcome(msgspec.structs.replace(command, stream_objects=unprepared))[0] == "OBJECT_NOT_EXIST"
    nothing = msgspec.structs.replace(command, loads=(), stream_set_object=None, stream_objects=())
    assert world.outcome(nothing)[0] == "INVALID_REQUEST", "a begun load does not end without its objects"
    assert world.outcome(command) == ("OK", 4)


def test_sw10_only_the_driver_of_the_batch_prepares_objects_and_commits_them(loading: Loading) -> None:
    command = loading.command()
    loading.begin(driver="b")
    assert loading.world.outcome(command) == ("SINK_TAKEN_OVER", 0)
    wanted = PrepareObjects(1, 1_000, sink_id="out", sink_driver="a")
    assert loading.world.outcome(wanted) == ("SINK_TAKEN_OVER", 0)
    other = PrepareObjects(1, 1_000, sink_id="other", sink_driver="a")
    assert loading.world.outcome(other) == ("SINK_TAKEN_OVER", 0)
    both = PrepareObjects(1, 1_000, node_id=0, node_epoch=1, sink_id="out", sink_driver="b")
    assert loading.world.outcome(both) == ("INVALID_REQUEST", 0)
    assert loading.world.outcome(msgspec.structs.replace(command, driver="b")) == ("OK", 4)
    assert loading.world.outcome(wanted) == ("SINK_TAKEN_OVER", 0), "the batch is over"


def test_a_load_becomes_a_relay_and_never_the_other_way(loading: Loading) -> None:
    command = loading.command()
    targets = (SinkTarget(loading.old, 5, 10),)
    relayed = loading.begin(driver="b", mode=RELAY, producer_id=7, targets=targets, manifest="other")
    assert (relayed.mode, relayed.driver, relayed.producer_id) == (RELAY, "b", 7)
    assert (relayed.manifest, relayed.targets) == ("staging/out/0/m", (SinkTarget(loading.old, 0, 10),))
    assert loading.world.outcome(command)[0] == "SINK_TAKEN_OVER"
    assert loading.world.outcome(msgspec.structs.replace(command, driver="b"))[0] == "INVALID_REQUEST"
    with pytest.raises(SinkChanged):
        loading.begin(driver="c", mode=OBJECTS)
    loading.world.do(CommitSinkBatch("out", 0, "b", (SinkTarget(loading.old, 8, 10),)))
    begun = loading.begin(batch_id=1, mode=OBJECTS)
    assert (begun.mode, begun.producer_id, begun.targets) == (OBJECTS, 7, (SinkTarget(loading.old, 8, 10),))


def test_sw14_an_empty_load_and_an_abandoned_one_name_no_objects(loading: Loading) -> None:
    assert loading.world.outcome(CommitSinkBatch("out", 0, "a", (), is_abandoned=True)) == ("OK", 1)
    loading.begin(batch_id=1, manifest="", manifest_crc=0)
    assert loading.world.outcome(CommitSinkBatch("out", 1, "a", ())) == ("OK", 1)


def test_no_node_has_an_id_of_the_sinks() -> None:
    world = MetadataWorld()
    assert world.outcome(RegisterNode(SINK_NODE - 1, "first", "wal")) == ("OK", 1)
    assert world.outcome(RegisterNode(SINK_NODE, "first", "wal")) == ("INVALID_REQUEST", 0)
    assert world.outcome(RegisterNode(SINK_NODE + 1, "first", "wal")) == ("INVALID_REQUEST", 0)
