"""``siltstone.listener``: scans, streams and sinks find the nodes at the listener that the settings of a client name.

The node tells others its listener without TLS. Ada's client speaks TLS and logs in, which that listener does not take.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.metadata.node_address import ListenerMissing
from siltstone.model.access import LoginMechanism
from siltstone.offline.context import MaintenanceContext
from siltstone.scanning.failures import TailNotReadable
from siltstone.scanning.request import EARLIEST, Bounds, ScanRequest
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.source import open_source
from siltstone.scanning.streaming.advancing import BatchLimit
from siltstone.scanning.streaming.topic_stream import StreamOfTopics, StreamRequest
from support.broker.served_node import ServedNode
from support.kafka.quiet_client import QUIET
from support.maintenance.sinks import Sink, create, rows_of, values
from support.processes.cli import run
from support.security.credentials import users_command
from support.tls.authority import Authority

pytestmark = [pytest.mark.xdist_group("client-listener"), pytest.mark.clients]

RECORDS = 20


class World:
    """A store with a topic, of which nothing is in an object, and the file of ada's client."""

    def __init__(self, node: ServedNode, folder: Path, file: Path) -> None:
        self.node, self.folder, self.file = node, folder, file
        self.plain, self.login = (":".join(map(str, each)) for each in node.addresses)

    def names(self, listener: str) -> None:
        lines = [line for line in self.file.read_text().splitlines() if "siltstone." not in line]
        self.file.write_text("\n".join([*lines, *([f"siltstone.listener={listener}"] if listener else ())]))

    def logins(self) -> int:
        async def counted(node: object) -> int:
            return node.broker.logins().succeeded[LoginMechanism.SCRAM_SHA_512]

        return self.node.on_loop(counted)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("client-listener")
    authority = Authority(folder)
    settings = {"listener.LOGIN.protocol": "SASL_SSL", **authority.issue("broker").settings("LOGIN")}
    listeners = ("PLAINTEXT://127.0.0.1:0", "LOGIN://127.0.0.1:0")
    file = folder / "client.properties"
    file.write_text(
        f"security.protocol=SASL_SSL\nssl.ca.location={authority.file}\nsasl.username=ada\nsasl.password=pencil\n"
    )
    file.chmod(0o600)
    with ServedNode(folder / "store", settings, listeners) as node:
        node.on_loop(lambda each: each.node.metadata.execute(users_command(ada="pencil")))
        world = World(node, folder / "store", file)
        create(world.plain, "flights")
        producer = Producer({"bootstrap.servers": world.plain, **QUIET})
        for number in range(RECORDS):
            producer.produce("flights", b"%d" % number)
        assert producer.flush(60) == 0
        yield world


@pytest.fixture
def world(served: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("SILTSTONE_CLIENT_CONFIG", str(served.file))
    return served


def test_a_scan_reads_its_tail_at_the_listener_of_that_name(world: World) -> None:
    world.names("")
    with pytest.raises(TailNotReadable, match="closed the connection during the handshake of TLS"):
        siltstone.scan("flights", store=world.folder).to_arrow()
    world.names("login")
    before = world.logins()
    assert siltstone.scan("flights", store=world.folder).to_arrow().num_rows == RECORDS
    assert world.logins() > before
    world.names("SECURE")
    with pytest.raises(ListenerMissing, match="set it to LOGIN or PLAINTEXT"):
        siltstone.scan("flights", store=world.folder).to_arrow()


def test_a_stream_and_the_progress_of_its_group_use_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[MaintenanceContext] = []

    @contextmanager
    def source() -> Iterator[MaintenanceContext]:
        with open_source(world.folder) as context:
            opened.append(context)
            yield context

    world.names("LOGIN")
    scan = ScanRequest(topics=("flights",), start=Bounds(EARLIEST))
    stream = StreamOfTopics(source, StreamRequest(scan, poll_interval_ms=0, group_id="of-a-stream"))
    start = stream.initial()
    end = stream.latest(start, BatchLimit())
    before = world.logins()
    rows = [batch.num_rows for unit in stream.plan(start, end) for batch in unit_rows(unit)]
    assert sum(rows) == RECORDS
    stream.finished(end)
    assert world.logins() >= before + 2, "the reader of the tail, and the progress"
    monkeypatch.delenv("SILTSTONE_CLIENT_CONFIG")
    offsets = run("groups", "describe", "of-a-stream", "--bootstrap", world.plain, "--json")
    assert f'"committed_offset": {RECORDS}' in offsets.out, offsets.out
    stream.close()


@pytest.mark.parametrize("mode", [None, "transaction"])
def test_a_sink_writes_at_the_listener_of_that_name(world: World, mode: str | None) -> None:
    topic = create(world.plain, f"written-{mode}")
    world.names("LOGIN")
    before = world.logins()
    Sink(world.folder, topic, f"sink-{mode}", mode=mode).write(0, rows_of(0, 10))
    assert world.logins() > before
    assert len(values(world.plain, topic)) == 10


def test_who_is_given_an_address_is_at_a_listener_already(world: World) -> None:
    """Commands and KeyedView ignore the name, also one that no node has."""
    world.names("NOWHERE")
    listed = run("topics", "--bootstrap", world.login, "--client-config", str(world.file))
    assert listed.status == 0 and "flights" in listed.out, listed.err
    lines = dict(line.split("=", 1) for line in world.file.read_text().splitlines())
    with siltstone.KeyedView(world.login, "flights", client_config=lines) as view:
        view.catch_up(60)
