"""The driver of a batch: its entries before and after the relay, and what a repetition or another driver does then."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from siltstone.kafka_client.client_settings import ClientSettings
from siltstone.kafka_client.failures import NotKafka
from siltstone.metadata.commands import CloseStream, OpenStream, RegisterNode
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.node_address import ListenerMissing, put_node_address
from siltstone.metadata.refusals import (
    SinkBatchBehind,
    SinkOfAnotherQuery,
    SinkTakenOver,
    StreamNotClosed,
)
from siltstone.metadata.sinks import (
    OBJECTS,
    RELAY,
    CommitSinkBatch,
    SinkBatch,
    SinkState,
    SinkTarget,
    batch_folder,
    sink_of,
)
from siltstone.metadata.store.port import LogUnavailable
from siltstone.scanning.tail import Stranger
from siltstone.sinking import batch as module
from siltstone.sinking.batch import OVERLAPS_MAX, SinkDriver, abandon
from siltstone.sinking.failures import (
    BrokerNotFound,
    SinkBatchStuck,
    SinkOutcomeUnknown,
    TopicGoneForSink,
)
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.plan import SinkPlan, plan_sink
from siltstone.sinking.relay import RelayOverlaps
from siltstone.sinking.staging import REPORT_VERSION, StagedPart, TaskReport
from support.maintenance.keyed_world import KeyedWorld, keyed_world

ADDRESS = "127.0.0.1:1001"
PRODUCER_ID = 77


class Killed(BaseException):
    """The driver's process ends here."""


class Relaying:
    """Stands in for the brokers and the relay: ``sent`` has the parts of each manifest that was relayed, with the
    progress that was known. ``overlaps`` sends fail because another process is faster."""

    def __init__(self) -> None:
        self.sent: list[tuple[SinkManifest, dict[int, int]]] = []
        self.done: dict[int, int] = {}
        self.overlaps = 0
        self.looked = 0
        self.identities = 0
        self.addresses: list[str] = []
        self.closed = 0
        self.trouble: Exception | None = None

    def cluster(self, bootstrap: Any, *_: object) -> Any:
        (place,) = bootstrap
        self.addresses.append(f"{place.host}:{place.port}")
        return self

    def __enter__(self) -> "Relaying":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.closed += 1

    def check(self, *_: object) -> None:
        if self.trouble is not None:
            raise self.trouble

    def identity(self, cluster: object) -> Any:
        self.identities += 1
        return SimpleNamespace(producer_id=PRODUCER_ID)

    def starts(self, cluster: object, parts: Any) -> tuple[SinkTarget, ...]:
        return tuple(
            SinkTarget(stream_id, 0, 100) for stream_id in sorted({each.stream_id for each in parts})
        )

    def relay(
        self, cluster: object, store: object, sink_id: str, begun: SinkBatch, manifest: SinkManifest
    ) -> Any:
        def send(done: dict[int, int]) -> None:
            if self.overlaps:
                self.overlaps -= 1
                raise RelayOverlaps("later")
            self.sent.append((manifest, done))

        def done_records(image: object) -> dict[int, int]:
            self.looked += 1
            return self.done

        targets = tuple(
            SinkTarget(each.stream_id, each.next_sequence + 5, each.start_offset) for each in begun.targets
        )
        return SimpleNamespace(send=send, done_records=done_records, end_targets=lambda: targets)


class World:
    def __init__(self, store: KeyedWorld, relaying: Relaying) -> None:
        self.store, self.relaying = store, relaying
        (self.stream,) = store.topic(cleanup_policy="delete")
        store.metadata.execute(put_node_address(0, ADDRESS))
        self.plan: SinkPlan = plan_sink(store.context, [("value", "binary")], "t", None)

    def driver(self, killed_at: str = "", **given: Any) -> SinkDriver:
        def step(name: str) -> None:
            if name == killed_at:
                raise Killed

        return SinkDriver(self.store.another_context(), self.plan, "out", on_step=step, **given)

    def staged(self, batch_id: int, attempt: str = "a") -> list[TaskReport]:
        """Stages two parts in objects and one in the report."""
        keys = [f"{batch_folder('out', batch_id)}{number}-{attempt}" for number in range(2)]
        for key in keys:
            self.store.store.put(key, [attempt.encode()])
        place = ("t", self.store.topic_named().topic_id, 0, self.stream)
        parts = [StagedPart(*place, key, 0, 1, 1) for key in (*keys, "")]
        now_ms = self.store.clock.now_ms()
        return [
            TaskReport(REPORT_VERSION, 0, "query", now_ms, tuple(parts[:2])),
            TaskReport(REPORT_VERSION, 1, "query", now_ms, (parts[2],), attempt.encode()),
        ]

    def left(self) -> list[str]:
        return [each.key for each in self.store.store.list("staging/")]

    def standing(self) -> SinkBatch:
        found = sink_of(self.store.image, "out")
        assert found is not None
        return found

    def commit(
        self, batch_id: int, reports: list[TaskReport], query: str = "query", **given: Any
    ) -> SinkState:
        return self.driver(**given).commit(query, batch_id, reports)

    def begun(self, batch_id: int = 0) -> SinkBatch:
        """Begins a batch whose driver dies after the intent."""
        with pytest.raises(Killed):
            self.commit(batch_id, self.staged(batch_id, "first"), killed_at="intent")
        return self.standing()

    def values(self) -> list[bytes]:
        """Returns the values in the reports of each manifest that was relayed."""
        return [manifest.inline for manifest, _ in self.relaying.sent]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    relaying = Relaying()
    for name, instead in (
        ("Cluster", relaying.cluster), ("refuse_stranger", relaying.check), ("new_identity", relaying.identity),
        ("start_offsets", relaying.starts), ("Relay", relaying.relay),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, instead)
    with keyed_world() as store:
        yield World(store, relaying)


def test_a_batch_is_relayed_once_and_its_record_says_where_the_sink_stands(world: World) -> None:
    assert world.commit(0, world.staged(0)) is SinkState.DONE
    standing = world.standing()
    assert (standing.state, standing.batch_id, standing.query_id) == (SinkState.DONE, 0, "query")
    assert (standing.producer_id, standing.targets) == (PRODUCER_ID, (SinkTarget(world.stream, 5, 100),))
    assert (world.values(), world.relaying.sent[0][1], world.relaying.looked) == ([b"a"], {}, 0)
    assert world.left() == [], "the manifest and the parts are deleted"
    assert world.relaying.closed == len(world.relaying.addresses) == 2


def test_the_next_batch_is_the_same_producers(world: World) -> None:
    for batch_id in (0, 1, 5):
        world.commit(batch_id, world.staged(batch_id))
    assert (world.relaying.identities, world.standing().batch_id) == (1, 5)
    assert world.standing().targets == (SinkTarget(world.stream, 15, 100),)


def test_a_batch_that_is_done_is_not_relayed_again_and_what_was_staged_for_it_is_deleted(
    world: World,
) -> None:
    world.commit(3, world.staged(3))
    before = world.standing()
    assert world.commit(3, world.staged(3, "b")) is SinkState.DONE
    assert (world.values(), world.left(), world.standing()) == ([b"a"], [], before)
    with pytest.raises(SinkBatchBehind):
        world.commit(2, world.staged(2))
    asked = len(world.relaying.addresses)
    with pytest.raises(SinkOfAnotherQuery):
        world.commit(4, world.staged(4), query="another")
    assert (world.values(), len(world.relaying.addresses)) == ([b"a"], asked), "no broker is asked for it"
    assert not any("manifest" in key for key in world.left())


def test_a_batch_that_was_begun_is_finished_with_its_own_parts(world: World) -> None:
    begun = world.begun()
    assert begun.state is SinkState.INTENT and begun.manifest in world.left()
    world.relaying.done = {world.stream: 2}
    assert world.commit(0, world.staged(0, "again")) is SinkState.DONE
    assert world.values() == [b"first"]
    assert (world.relaying.sent[0][1], world.relaying.looked) == ({world.stream: 2}, 1)
    assert (world.left(), world.standing().state) == ([], SinkState.DONE)


def test_a_batch_without_rows_asks_no_broker(world: World) -> None:
    assert world.commit(0, []) is SinkState.DONE
    assert (world.relaying.addresses, world.left(), world.standing().state) == ([], [], SinkState.DONE)
    assert world.standing().producer_id == -1
    world.commit(1, world.staged(1))
    assert (world.standing().producer_id, world.values()) == (PRODUCER_ID, [b"a"])


def test_the_record_of_a_nameless_sink_goes_with_its_batch(world: World) -> None:
    world.commit(0, world.staged(0), is_nameless=True)
    assert sink_of(world.store.image, "out") is None and len(world.values()) == 1


@pytest.mark.parametrize("overlaps", [1, OVERLAPS_MAX - 1])
def test_another_process_that_relays_the_same_batch_is_looked_up(world: World, overlaps: int) -> None:
    world.relaying.overlaps = overlaps
    world.relaying.done = {world.stream: 1}
    world.commit(0, world.staged(0))
    assert (world.relaying.looked, world.relaying.sent[0][1]) == (overlaps, {world.stream: 1})


def test_a_process_that_is_always_overtaken_gives_up_and_the_batch_stands_as_begun(world: World) -> None:
    world.relaying.overlaps = OVERLAPS_MAX
    with pytest.raises(RelayOverlaps):
        world.commit(0, world.staged(0))
    assert (world.relaying.overlaps, world.standing().state) == (0, SinkState.INTENT)
    assert len(world.left()) == 3


# -- what stops a batch


@pytest.mark.parametrize("trouble", [Stranger("another store answers"), NotKafka("no broker")])
def test_a_broker_that_is_not_the_stores_stops_it_before_the_intent(world: World, trouble: Exception) -> None:
    world.relaying.trouble = trouble
    with pytest.raises(BrokerNotFound, match=f"the broker at {ADDRESS} cannot be asked to write: {trouble}"):
        world.commit(0, world.staged(0))
    assert sink_of(world.store.image, "out") is None
    assert world.relaying.closed == 1 and len(world.left()) == 2


def test_the_broker_that_owns_a_partition_is_asked_else_another_unless_one_is_named(world: World) -> None:
    world.store.metadata.execute(RegisterNode(7, "another", "elsewhere"))
    world.store.metadata.execute(put_node_address(7, "127.0.0.1:1007"))
    world.commit(0, world.staged(0))
    world.commit(1, world.staged(1), bootstrap="127.0.0.1:1009")
    assert set(world.relaying.addresses[:2]) == {ADDRESS}
    assert set(world.relaying.addresses[2:]) == {"127.0.0.1:1009"}


def test_the_broker_is_asked_at_the_listener_that_the_settings_name(world: World) -> None:
    secure = (NodeListener("SECURE", "127.0.0.1", 1007),)
    world.store.metadata.execute(RegisterNode(7, "another", "elsewhere", listeners=secure))
    settings = ClientSettings(listener="SECURE")
    context = replace(world.store.another_context(), client=lambda: settings)
    SinkDriver(context, world.plan, "out").commit("query", 0, world.staged(0))
    assert set(world.relaying.addresses) == {"127.0.0.1:1007"}
    other = replace(context, client=lambda: ClientSettings(listener="OTHER"))
    with pytest.raises(ListenerMissing, match=r"names OTHER, .* set it to SECURE"):
        SinkDriver(other, world.plan, "out").commit("query", 1, world.staged(1))
    named = SinkDriver(other, world.plan, "out", bootstrap="127.0.0.1:1009")
    named.commit("query", 1, world.staged(1))
    assert world.relaying.addresses[-1] == "127.0.0.1:1009", "an address is of one listener already"


def test_without_an_address_of_a_broker_nothing_is_begun(world: World) -> None:
    other = KeyedWorld()
    (stream,) = other.topic()
    part = StagedPart("t", other.topic_named().topic_id, 0, stream, "", 0, 1, 1)
    report = TaskReport(REPORT_VERSION, 0, "query", other.clock.now_ms(), (part,), b"x")
    driver = SinkDriver(other.context, world.plan, "out")
    with pytest.raises(BrokerNotFound, match="the metadata has no address of a broker"):
        driver.commit("query", 0, [report])
    other.metadata.execute(RegisterNode(7, "another", "elsewhere"))
    other.metadata.execute(put_node_address(7, "127.0.0.1:1007"))
    driver.commit("query", 0, [report])
    assert set(world.relaying.addresses) == {"127.0.0.1:1007"}, "any node will do"


def test_a_topic_that_goes_stops_a_batch_before_the_intent_and_sticks_it_after(world: World) -> None:
    reports = world.staged(0)
    world.begun(0)
    world.store.delete_topic()
    with pytest.raises(SinkBatchStuck, match="batch 0 of sink out is stuck at t: the topic was deleted"):
        world.commit(0, reports)
    assert abandon(world.store.context, "out") is not None
    with pytest.raises(TopicGoneForSink, match="topic t was deleted or created again"):
        world.commit(1, reports)
    assert world.standing().batch_id == 0


# -- giving up


def test_what_was_staged_for_a_batch_that_never_began_is_deleted(world: World) -> None:
    reports = world.staged(0)
    world.driver().abort("query", 0, reports)
    assert world.left() == []
    world.commit(0, world.staged(0))
    later = world.staged(1)
    world.driver().abort("query", 1, later)
    assert world.left() == []


def test_the_parts_of_a_batch_that_stands_as_begun_are_kept(world: World) -> None:
    world.begun(0)
    kept = world.left()
    part_keys = [key for key in kept if "manifest" not in key]
    place = ("t", world.store.topic_named().topic_id, 0, world.stream)
    parts = tuple(StagedPart(*place, key, 0, 1, 1) for key in part_keys)
    reports = [TaskReport(REPORT_VERSION, 0, "query", 0, parts)]
    world.driver().abort("query", 0, reports)
    assert world.left() == kept, "Spark aborts after a commit that failed, too"
    world.driver().abort("query", 1, reports)
    assert len(world.left()) == 1, "of another batch they are nobody's"


def test_nothing_is_deleted_while_the_metadata_cannot_be_asked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports, driver = world.staged(0), world.driver()

    def silent() -> None:
        raise LogUnavailable("no answer")

    monkeypatch.setattr(driver._source.metadata, "refresh", silent)
    driver.abort("query", 0, reports)
    assert len(world.left()) == 2


def test_an_unfinished_batch_is_abandoned_once_and_the_next_one_goes_on(world: World) -> None:
    assert abandon(world.store.context, "out") is None
    begun = world.begun(0)
    assert abandon(world.store.context, "out") == begun
    assert world.standing().state is SinkState.ABANDONED
    assert abandon(world.store.context, "out") is None
    world.commit(1, world.staged(1))
    assert (world.standing().state, world.values()) == (SinkState.DONE, [b"a"])


# -- the mode


class Loads:
    """Stands in for the load: ``loaded`` has the values in the reports of each manifest; ``trouble`` is raised at the
    first load."""

    def __init__(self) -> None:
        self.loaded: list[bytes] = []
        self.trouble: Exception | None = None

    def load(
        self, source: Any, plan: object, manifest: SinkManifest, command: CommitSinkBatch, step: Any
    ) -> None:
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble
        self.loaded.append(manifest.inline)


@pytest.fixture
def loads(world: World, monkeypatch: pytest.MonkeyPatch) -> Loads:
    """The partition is closed; the broker at its address is away until ``world.relaying.trouble`` is None."""
    loads = Loads()
    monkeypatch.setattr(module, "load_batch", loads.load)
    world.store.metadata.execute(CloseStream(0, 1, world.stream, 0))
    world.relaying.trouble = NotKafka("no broker")
    return loads


def test_without_a_broker_a_batch_is_loaded_and_with_one_it_is_relayed(world: World, loads: Loads) -> None:
    world.commit(0, world.staged(0))
    assert (loads.loaded, world.values(), world.standing().mode) == ([b"a"], [], OBJECTS)
    world.store.metadata.execute(CommitSinkBatch("out", 0, world.standing().driver, (), is_abandoned=True))
    world.relaying.trouble = None
    world.commit(1, world.staged(1, "b"))
    assert (loads.loaded, world.values(), world.standing().mode) == ([b"a"], [b"b"], RELAY)


def test_an_open_stream_or_a_named_broker_wants_a_relay(world: World, loads: Loads) -> None:
    with pytest.raises(BrokerNotFound):
        world.commit(0, world.staged(0), bootstrap="127.0.0.1:1009")
    world.store.metadata.execute(OpenStream(0, 1, world.stream, 1))
    with pytest.raises(BrokerNotFound):
        world.commit(0, world.staged(0))
    with pytest.raises(StreamNotClosed, match="t-0 is open at node 0"):
        world.commit(0, world.staged(0), mode=OBJECTS)
    assert sink_of(world.store.image, "out") is None and loads.loaded == []


def test_a_mode_that_is_named_is_taken(world: World, loads: Loads) -> None:
    with pytest.raises(BrokerNotFound):
        world.commit(0, world.staged(0), mode=RELAY)
    world.relaying.trouble = None
    world.commit(0, world.staged(0), mode=OBJECTS)
    assert (loads.loaded, world.relaying.addresses[1:]) == ([b"a"], []), "no broker is looked for"


def test_a_load_that_was_begun_is_relayed_once_a_broker_has_the_partition_open(
    world: World, loads: Loads
) -> None:
    loads.trouble = StreamNotClosed("open")
    with pytest.raises(StreamNotClosed):
        world.commit(0, world.staged(0, "first"))
    assert world.standing().state is SinkState.INTENT
    world.relaying.trouble = None
    world.store.metadata.execute(OpenStream(0, 1, world.stream, 1))
    with pytest.raises(SinkTakenOver):
        loads.trouble = SinkTakenOver("by another")
        world.commit(0, world.staged(0, "second"), mode=OBJECTS)
    world.commit(0, world.staged(0, "third"))
    assert (world.values(), loads.loaded) == ([b"first"], []), "with the parts of the batch that was begun"
    assert (world.relaying.sent[0][1], world.relaying.looked) == ({}, 0), "a load has written nothing"
    assert (world.standing().mode, world.standing().producer_id) == (RELAY, PRODUCER_ID)
    assert world.standing().state is SinkState.DONE
    assert all("second" in key for key in world.left()), "Spark aborts the attempt that was refused"


@pytest.mark.parametrize("is_nameless", [True, False])
def test_sw15_a_topic_that_goes_away_during_a_load(world: World, loads: Loads, is_nameless: bool) -> None:
    loads.trouble = TopicGoneForSink("t")
    with pytest.raises(
        TopicGoneForSink if is_nameless else SinkBatchStuck, match=r"t was deleted|none of its records"
    ):
        world.commit(0, world.staged(0), is_nameless=is_nameless)
    assert (sink_of(world.store.image, "out") is None) == is_nameless


def test_a_nameless_load_whose_outcome_is_unknown_keeps_its_record(world: World, loads: Loads) -> None:
    loads.trouble = SinkOutcomeUnknown("out", 0)
    with pytest.raises(SinkOutcomeUnknown):
        world.commit(0, world.staged(0), is_nameless=True)
    assert world.standing().state is SinkState.INTENT
