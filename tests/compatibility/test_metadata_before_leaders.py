"""A store of one node, as the version before leaders wrote it: its entries, cut to the fields of that time."""

from collections.abc import Iterable

import msgspec
import pytest

from siltstone.metadata.commands import CloseStream, CreateTopic, OpenStream, RegisterNode
from siltstone.metadata.entities import NO_NODE, StreamState
from siltstone.metadata.log_entry import LogEntry, decode_entry, encode_entry
from siltstone.metadata.records import Record
from support.metadata.metadata_world import MetadataWorld, next_image

ID, OTHER_ID = "0123456789abcdef" * 2, "f" * 32
APPEND_ID = "0" * 32
NODE_REGISTERED, TOPIC_CREATED = 1, 50


def as_written_before(records: Iterable[Record]) -> list[list]:
    """The raw arrays without the fields that came with leaders."""
    raw = msgspec.msgpack.decode(msgspec.msgpack.encode(tuple(records)))
    for record in raw:
        if record[0] == NODE_REGISTERED:
            del record[6:]
        if record[0] == TOPIC_CREATED:
            record[3] = [partition[:2] for partition in record[3]]
    return raw


def read_today(raw: list[list]) -> tuple[Record, ...]:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(raw), type=tuple[Record, ...])


@pytest.fixture
def older() -> MetadataWorld:
    """Node 0, killed with both streams of flights-0 open at epoch 0 and 10 records committed."""
    then = MetadataWorld()
    then.register(0)
    then.do(CreateTopic(0, 1, "flights", ID, 1))
    for stream_id in (0, 1):
        then.do(OpenStream(0, 1, stream_id, 0))
    then.do(then.upload((0, 0, 10)))
    now = MetadataWorld()
    for records in then.log:
        now.image = next_image(now.image, read_today(as_written_before(records)))
    assert now.image.topics[ID].partitions[0].leader == NO_NODE
    return now


def test_the_only_node_starts_again_leads_and_goes_on(older) -> None:
    again = older.do(RegisterNode(0, "second", "wal", log_epoch=1))
    assert [stream.stream_id for stream in again.opened_streams] == [0, 1]
    for stream_id in (0, 1):
        older.do(CloseStream(0, again.node_epoch, stream_id, 0))
        opened = older.do(OpenStream(0, again.node_epoch, stream_id, 1))
        assert (opened.state, opened.owner) == (StreamState.OPENED, 0)
    assert older.image.topics[ID].partitions[0].leader == 0
    assert older.outcome(older.upload((0, 10, 20), node_epoch=again.node_epoch))[0] == "OK"


def test_a_start_without_its_bucket_goes_on_under_the_same_epochs(older) -> None:
    """The streams stay open (decision 11), and are opened again by the broker."""
    epoch = older.do(RegisterNode(0, "second", "wal", log_epoch=1)).node_epoch
    for stream_id in (0, 1):
        assert older.do(OpenStream(0, epoch, stream_id, 0)).epoch == 0
    assert older.image.topics[ID].partitions[0].leader == 0
    assert older.image.nodes[0].log_epoch == epoch


def test_new_topics_are_led_by_the_only_node(older) -> None:
    epoch = older.do(RegisterNode(0, "second", "wal", log_epoch=1)).node_epoch
    topic = older.do(CreateTopic(0, epoch, "new", OTHER_ID, 3))
    assert [partition.leader for partition in topic.partitions] == [0, 0, 0]


def test_the_bytes_of_then_are_shorter_and_read_the_same() -> None:
    world = MetadataWorld()
    world.register(0)
    (records,) = world.log
    assert read_today(as_written_before(records)) == records
    entry = encode_entry(LogEntry(APPEND_ID, records))
    assert decode_entry(entry).records == records
    assert len(msgspec.msgpack.encode(as_written_before(records))) < len(msgspec.msgpack.encode(records))
