import pytest

from siltstone.metadata.commands import CloseStream, CreateStream, DeleteStream, OpenStream, TrimStream
from siltstone.metadata.entities import NO_EPOCH, NO_NODE, OwnerRange, StreamState
from siltstone.model.objects import ObjectState
from support.metadata.metadata_world import MetadataWorld


@pytest.fixture
def world() -> MetadataWorld:
    """Nodes 0 and 1; streams 0 and 1, both opened by node 0 at epoch 0."""
    made = MetadataWorld()
    made.register(0)
    made.register(1)
    made.open_stream()
    made.open_stream()
    return made


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(OpenStream(1, 1, 0, 0), ("STREAM_FENCED", 0), id="n1 open s0 e0"),
        pytest.param(OpenStream(0, 1, 1, 0), ("OK", 0), id="n0 open s1 e0"),
        pytest.param(OpenStream(0, 1, 1, 1), ("STREAM_NOT_CLOSED", 0), id="n0 open s1 e1"),
        pytest.param(OpenStream(1, 1, 1, 1), ("STREAM_NOT_CLOSED", 0), id="n1 open s1 e1"),
        pytest.param(CloseStream(1, 1, 1, 0), ("STREAM_FENCED", 0), id="n1 close s1 e0"),
        pytest.param(CloseStream(0, 1, 1, 1), ("STREAM_INNER_ERROR", 0), id="n0 close s1 e1"),
        pytest.param(CloseStream(0, 1, 1, 0), ("OK", 1), id="n0 close s1 e0"),
        pytest.param(OpenStream(0, 1, 1, -1), ("STREAM_FENCED", 0), id="n0 open s1 below its epoch"),
        pytest.param(OpenStream(0, 1, 7, 0), ("STREAM_NOT_EXIST", 0), id="open a missing stream"),
        pytest.param(CloseStream(0, 1, 7, 0), ("STREAM_NOT_EXIST", 0), id="close a missing stream"),
        pytest.param(OpenStream(0, 0, 0, 0), ("NODE_EPOCH_EXPIRED", 0), id="lower node epoch"),
        pytest.param(OpenStream(0, 2, 0, 0), ("NODE_EPOCH_NOT_EXIST", 0), id="node epoch never given out"),
        pytest.param(OpenStream(5, 1, 0, 0), ("NODE_EPOCH_NOT_EXIST", 0), id="unknown node"),
    ],
)
def test_t23_open_close_matrix(world, command, expected) -> None:
    assert world.outcome(command) == expected


def test_t23_closing_twice_and_taking_over(world) -> None:
    world.do(world.upload((1, 0, 40)))
    assert world.outcome(CloseStream(0, 1, 1, 0)) == ("OK", 1)
    assert world.outcome(CloseStream(0, 1, 1, 0)) == ("OK", 0)
    opened = world.do(OpenStream(1, 1, 1, 1))
    assert opened == world.image.streams[1]
    assert (opened.owner, opened.epoch, opened.end_offset) == (1, 1, 40)
    assert opened.owner_ranges == (OwnerRange(0, 0, 0, 40), OwnerRange(1, 1, 40, 40))
    assert world.outcome(CloseStream(0, 1, 1, 0)) == ("STREAM_FENCED", 0)


def test_the_owner_reopens_under_the_same_epoch(world) -> None:
    world.do(CloseStream(0, 1, 1, 0))
    assert world.outcome(OpenStream(1, 1, 1, 0)) == ("STREAM_FENCED", 0)
    assert world.outcome(OpenStream(0, 1, 1, 0)) == ("OK", 1)
    assert world.image.streams[1].owner_ranges == (OwnerRange(0, 0, 0, 0),)
    assert world.do(OpenStream(0, 1, 1, 0)) == world.image.streams[1], "an open one is answered, too"


def test_an_owner_range_that_stayed_empty_goes(world) -> None:
    world.do(CloseStream(0, 1, 1, 0))
    world.do(OpenStream(1, 1, 1, 3))
    assert world.image.streams[1].owner_ranges == (OwnerRange(1, 3, 0, 0),)


def test_a_new_stream_is_closed_empty_and_nobodys(world) -> None:
    stream_id = world.do(CreateStream(1, 1, {"topic": "a"}))
    made = world.image.streams[stream_id]
    assert (stream_id, made.state, made.epoch, made.owner) == (2, StreamState.CLOSED, NO_EPOCH, NO_NODE)
    assert (made.start_offset, made.end_offset, made.tags) == (0, 0, {"topic": "a"})
    assert world.outcome(OpenStream(1, 1, stream_id, NO_EPOCH)) == ("STREAM_FENCED", 0)


@pytest.fixture
def t26() -> MetadataWorld:
    """n0: SSO s0[0,10); SSO s0[10,20) + s1[0,10); SO s0[20,40). n1 at epoch 1: SSO s0[40,70)."""
    made = MetadataWorld()
    made.register(0)
    made.register(1)
    made.open_stream()
    made.open_stream()
    made.do(made.upload((0, 0, 10)))
    made.do(made.upload((0, 10, 20), (1, 0, 10)))
    made.do(made.upload(alone=((0, 20, 40),)))
    made.do(CloseStream(0, 1, 0, 0))
    made.do(OpenStream(1, 1, 0, 1))
    made.do(made.upload((0, 40, 70), node_id=1))
    return made


def test_t26_trim_inside_what_is_held(t26) -> None:
    assert t26.outcome(TrimStream(1, 1, 0, 1, 60)) == ("OK", 1)
    stream = t26.image.streams[0]
    assert (stream.start_offset, stream.end_offset) == (60, 70)
    assert stream.owner_ranges == (OwnerRange(1, 1, 60, 70),)
    assert len(t26.held(0)) == 4, "trimming touches no object"


def test_t26_trim_past_the_end(t26) -> None:
    assert t26.outcome(TrimStream(1, 1, 0, 1, 100)) == ("OK", 1)
    stream = t26.image.streams[0]
    assert (stream.start_offset, stream.end_offset) == (100, 100)
    assert stream.owner_ranges == (OwnerRange(1, 1, 100, 100),)
    assert t26.outcome(t26.upload((0, 70, 100), node_id=1)) == ("OK", 2)
    assert t26.ends(0) == (100,)
    assert t26.outcome(TrimStream(1, 1, 0, 1, 50)) == ("OFFSET_NOT_MATCHED", 0)
    assert t26.outcome(TrimStream(1, 1, 0, 1, 100)) == ("OK", 0)
    t26.do(CloseStream(1, 1, 0, 1))
    assert t26.outcome(TrimStream(1, 1, 0, 1, 120)) == ("STREAM_NOT_OPENED", 0)


def test_t26_delete(t26) -> None:
    assert t26.outcome(DeleteStream(1, 1, 0, 1)) == ("STREAM_NOT_CLOSED", 0)
    t26.do(CloseStream(1, 1, 0, 1))
    assert t26.outcome(DeleteStream(0, 1, 0, 0)) == ("STREAM_FENCED", 0), "a lower stream epoch (rule 7)"
    assert t26.outcome(DeleteStream(1, 1, 0, 1)) == ("OK", 2)
    assert t26.outcome(DeleteStream(1, 1, 0, 1)) == ("OK", 0)
    states = [t26.image.objects[object_id].state for object_id in range(4)]
    assert states == [
        ObjectState.COMMITTED,
        ObjectState.COMMITTED,
        ObjectState.DESTROYED,
        ObjectState.COMMITTED,
    ]
    assert t26.image.streams[0].state is StreamState.DELETED, "SSOs still hold ranges of it"
    assert [held[0] for held in t26.held(0)] == [0, 1, 3]
    assert t26.outcome(OpenStream(1, 1, 0, 2)) == ("STREAM_NOT_EXIST", 0)


def test_deleting_forgets_a_stream_nothing_else_holds(world) -> None:
    world.do(world.upload(alone=((0, 0, 10), (0, 10, 30))))
    world.do(CloseStream(0, 1, 0, 0))
    assert world.outcome(DeleteStream(0, 1, 0, 0)) == ("OK", 3)
    assert 0 not in world.image.streams
    assert world.outcome(DeleteStream(0, 1, 0, 0)) == ("OK", 0), "it was there once: done already"
    assert world.outcome(DeleteStream(0, 1, 99, 0)) == ("STREAM_NOT_EXIST", 0), "it never was"


@pytest.mark.parametrize("stream_id", [-1, 2])
def test_a_stream_that_was_never_created_is_not_deleted(world, stream_id) -> None:
    assert world.image.next_stream_id == 2
    assert world.outcome(DeleteStream(0, 1, stream_id, 0)) == ("STREAM_NOT_EXIST", 0)


def test_a_stream_is_deleted_under_its_own_epoch_only(world) -> None:
    world.do(CloseStream(0, 1, 1, 0))
    assert world.outcome(DeleteStream(0, 1, 1, 1)) == ("STREAM_INNER_ERROR", 0)
    assert world.outcome(DeleteStream(0, 1, 1, -1)) == ("STREAM_FENCED", 0)
    assert world.outcome(DeleteStream(1, 1, 1, 0))[0] == "OK", "any node may, once it is closed"


@pytest.mark.parametrize("command", [CreateStream, OpenStream, CloseStream, TrimStream, DeleteStream])
def test_rule_7_each_command_looks_at_the_node_epoch(world, command) -> None:
    rest = {CreateStream: (), TrimStream: (0, 0, 10)}.get(command, (0, 0))
    assert world.outcome(command(0, 0, *rest)) == ("NODE_EPOCH_EXPIRED", 0)
