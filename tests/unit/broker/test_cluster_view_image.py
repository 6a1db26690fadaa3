"""What follows for clients from one image of the metadata, without a broker: nodes and partitions as values."""

import asyncio

import pytest

from siltstone.broker.cluster_view import READS_PER_SECOND_MAX, ClusterView
from siltstone.broker.request import Listener
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.metadata.commands import (
    ClaimFailover,
    CloseStream,
    CreateTopic,
    DrainNode,
    FenceNode,
    OpenPartition,
    RegisterNode,
)
from siltstone.metadata.entities import NO_NODE, NodeListener, PartitionMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import NotLeader
from siltstone.model.errors import Unavailable
from siltstone.runtime.clock import ManualClock
from support.metadata.metadata_world import MetadataWorld
from support.scenarios import in_loop

OUTSIDE = Listener("OUTSIDE", "this.example", 19_092)
TOPIC = "ab" * 16


class ReadLog:
    """Stands for the metadata service. ``newest`` is found by the next read that begins; ``reads`` counts them."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = self.newest = image
        self.reads = 0
        self.is_out = False
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def refresh(self) -> None:
        self.reads += 1
        found = self.newest
        await self.goes_on.wait()
        if self.is_out:
            raise Unavailable("the log is out")
        self.image = found


class Clients(MetadataWorld):
    """What the clients of node 0 see."""

    def __init__(self, *listeners: str) -> None:
        """``listeners`` has the listener's name of each node; "" for a node that clients cannot find."""
        super().__init__()
        for node_id, name in enumerate(listeners):
            self.joins(node_id, name)
        self.log_read = ReadLog(self.image)
        self.clock = ManualClock()
        self.holds_lease = True
        self.view = ClusterView(self.log_read, self.clock, 0, lambda: self.holds_lease)

    def joins(self, node_id: int, name: str = "OUTSIDE") -> None:
        found = (NodeListener(name, f"node-{node_id}.example", 9092),) if name else ()
        self.do(RegisterNode(node_id, f"life of {node_id}", "wal", listeners=found, rack=f"rack-{node_id}"))

    def topic(self, *leaders: int) -> None:
        self.do(CreateTopic(0, 1, "t", TOPIC, len(leaders), leaders=leaders))

    def now(self) -> ClusterView:
        """The view, once the node has read what was done."""
        self.log_read.image = self.log_read.newest = self.image
        return self.view


def test_partitions_are_numbered_from_0_and_others_do_not_exist() -> None:
    clients = Clients("OUTSIDE", "OUTSIDE")
    clients.topic(1, 0)
    view = clients.now()
    assert [view.partition(TOPIC, index).leader for index in (0, 1)] == [1, 0]
    assert [view.partition(TOPIC, index) for index in (-2, -1, 2)] == [None] * 3
    assert view.partition("cd" * 16, 0) is None


def test_the_leader_of_another_partition_is_hinted_with_its_epoch_and_its_address_at_the_client_s_listener() -> (
    None
):
    clients = Clients("OUTSIDE", "OUTSIDE", "INSIDE")
    clients.topic(0, 1, 2)
    hint = clients.now().hint(TOPIC, 1, OUTSIDE)
    assert (hint.leader_epoch, hint.endpoint.node_id, hint.endpoint.host) == (0, 1, "node-1.example"), (
        "the first one"
    )
    clients.do(OpenPartition(1, 1, TOPIC, 1))
    assert clients.now().hint(TOPIC, 1, OUTSIDE).leader_epoch == 0, "the epoch under which it is open"
    clients.do(CloseStream(1, 1, clients.image.topics[TOPIC].partitions[1].data_stream_id, 0))
    assert clients.now().hint(TOPIC, 1, OUTSIDE).leader_epoch == 1, "the next one"
    assert clients.view.hint(TOPIC, 0, OUTSIDE) is None, "this node leads it"
    assert clients.view.hint(TOPIC, 2, OUTSIDE) is None, "its leader does not have the listener"
    assert clients.view.hint(TOPIC, 3, OUTSIDE) is None
    clients.do(FenceNode(1, 1))
    assert clients.now().hint(TOPIC, 1, OUTSIDE) is None, "its leader is gone"


def test_a_partition_whose_leader_clients_cannot_find_is_led_by_whichever_node_opens_it() -> None:
    clients = Clients("OUTSIDE", "OUTSIDE", "")
    clients.topic(0, 1, 2)
    view = clients.now()
    partitions = [view.partition(TOPIC, index) for index in range(3)]
    assert [view.leads(each) for each in partitions] == [True, False, True]
    assert [view.is_led(each) for each in partitions] == [True, True, True]
    nobody = PartitionMetadata(90, 91, leader=NO_NODE)
    assert view.leads(nobody) and view.leader_epoch(nobody) == 0
    clients.do(FenceNode(1, 1))
    view = clients.now()
    assert [view.is_led(each) for each in partitions] == [True, False, True]
    assert [view.leader_state(each, "OUTSIDE").error for each in partitions] == [
        ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE,
    ]  # fmt: skip


def test_which_nodes_are_live_and_which_of_them_is_named_as_the_controller() -> None:
    clients = Clients("", "OUTSIDE", "OUTSIDE", "INSIDE", "")
    view = clients.now()
    assert (view.live_ids, view.controller_id) == ({0, 1, 2, 3}, 1), "0 is this node; no client finds 4"
    clients.do(FenceNode(1, 1))
    view = clients.now()
    assert (view.live_ids, view.controller_id) == ({0, 2, 3}, 2)
    assert view.endpoint_of(1, OUTSIDE) is None and view.endpoint_of(3, OUTSIDE) is None
    assert (view.endpoint_of(2, OUTSIDE).host, view.endpoint_of(0, OUTSIDE).host) == (
        "node-2.example", "this.example",
    )  # fmt: skip
    assert [each.node_id for each in view.brokers(OUTSIDE)] == [0, 2]
    assert [(each.node_id, each.is_fenced) for each in view.brokers(OUTSIDE, with_fenced=True)] == [
        (0, False), (1, True), (2, False),
    ]  # fmt: skip
    alone = Clients("")
    assert (alone.now().controller_id, alone.view.live_ids) == (0, {0})


def test_a_node_has_takers_while_a_live_node_that_clients_find_is_not_drained_itself() -> None:
    assert not Clients("OUTSIDE", "").now().has_takers
    clients = Clients("OUTSIDE", "OUTSIDE", "OUTSIDE")
    assert clients.now().has_takers
    clients.do(DrainNode(1))
    assert clients.now().has_takers
    clients.do(FenceNode(2, 1))
    assert not clients.now().has_takers
    clients.do(DrainNode(1, is_draining=False))
    assert clients.now().has_takers
    clients.do(FenceNode(1, 1))
    assert not clients.now().has_takers and clients.view.has_others, "they may come back"


def test_a_node_serves_alone_without_its_lease_and_beside_others_only_with_it() -> None:
    clients = Clients("OUTSIDE", "")
    clients.holds_lease = False
    assert clients.now().serves and not clients.view.has_others
    clients.joins(2)
    assert not clients.now().serves
    with pytest.raises(NotLeader, match="node 0 has not beaten for a session"):
        clients.view.check_serves()
    clients.holds_lease = True
    assert clients.view.serves
    clients.view.check_serves()
    clients.do(FenceNode(0, 1))
    assert not clients.now().serves


def test_the_version_of_the_nodes_changes_with_them_and_never_comes_back() -> None:
    clients = Clients("OUTSIDE", "OUTSIDE")
    versions = []
    for command in (None, FenceNode(1, 1), ClaimFailover(0, 1, 1), DrainNode(0)):
        if command is not None:
            clients.answer(command)
        assert clients.now().image is clients.image
        versions.append(clients.view.nodes_version)
    assert versions == sorted(versions) and len({*versions[:3]}) == 3
    clients.topic(0)
    assert clients.now().image is clients.image
    assert clients.view.nodes_version == versions[-1], "a new topic changes no node"


@in_loop
async def test_those_that_ask_during_a_read_of_the_log_share_the_next_one() -> None:
    """What they ask about may have happened after the first one had begun."""
    clients = Clients("OUTSIDE")
    clients.joins(1)
    log = clients.log_read
    before, log.newest = clients.image, clients.image
    log.goes_on.clear()
    first = asyncio.ensure_future(clients.view.refreshed())
    await asyncio.sleep(0)
    clients.joins(2)
    later = [asyncio.ensure_future(clients.view.refreshed()) for _ in range(3)]
    await asyncio.sleep(0)
    assert log.reads == 1
    log.newest = clients.image
    log.goes_on.set()
    assert await first is before
    assert await asyncio.gather(*later) == [clients.image] * 3
    assert log.reads == 2


@in_loop
async def test_however_many_ask_the_log_is_read_fifty_times_a_second() -> None:
    clients = Clients("OUTSIDE")
    clients.joins(1)
    log = clients.log_read
    log.newest = clients.image
    for _ in range(READS_PER_SECOND_MAX):
        await clients.view.refreshed()
    asking = asyncio.ensure_future(clients.view.refreshed())
    for _ in range(10):
        clients.clock.advance_ms(99)
        await asyncio.sleep(0)
    assert log.reads == READS_PER_SECOND_MAX and not asking.done()
    clients.clock.advance_ms(10)
    assert await asking is clients.image and log.reads == READS_PER_SECOND_MAX + 1


@in_loop
async def test_while_the_log_cannot_be_read_the_older_image_is_good_enough() -> None:
    clients = Clients("OUTSIDE")
    before, log = clients.image, clients.log_read
    clients.joins(1)
    log.newest, log.is_out = clients.image, True
    assert await clients.view.refreshed() is before
