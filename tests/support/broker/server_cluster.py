"""Three brokers that share PostgreSQL and a bucket of SeaweedFS and no folder, each behind proxies of its own that can
be cut."""

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from urllib.parse import urlsplit

from siltstone.metadata.commands import DrainNode, MovePartitions
from siltstone.metadata.image import MetadataImage
from siltstone.offline.opening.store import Store, open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import BrokerProcess, checked_store
from support.broker.cluster_clients import until
from support.engine.s3_server import BUCKET, S3Server
from support.metadata.postgres_server import PostgresServer
from support.processes.cut_proxy import CutProxy

NODES = (0, 1, 2)
SETTINGS = """
metadata = "{metadata}"
[buckets]
0 = "s3://{bucket}/{prefix}?endpoint_url=http://127.0.0.1:{port}&region=us-east-1"
[engine.wal]
location = "{wal}"
[groups]
group_initial_rebalance_delay_ms = "0"
group_min_session_timeout_ms = "1s"
"""
WHOLE_SECONDS_MAX = 240
"""The time until all brokers serve again: a suspicion, a failover and a start, on a machine with much else to do."""


class Program(NamedTuple):
    """A program in place of ``siltstone``, and the environment in which it runs."""

    words: tuple[str, ...]
    environment: Mapping[str, str]


class Node:
    """A broker, and the network between it and the servers."""

    def __init__(
        self, folder: Path, node_id: int, postgres: PostgresServer, s3: S3Server, schema: str, wal: str
    ) -> None:
        self.to_metadata = CutProxy(postgres.port)
        self.to_bucket = CutProxy(urlsplit(s3.endpoint_url).port or 0)
        (folder / "my-store").mkdir(parents=True)
        self.folder = folder / "my-store"
        settings = SETTINGS.format(
            metadata=postgres.tcp_url(schema, port=self.to_metadata.port), bucket=BUCKET, prefix=schema,
            port=self.to_bucket.port, wal=wal,
        )  # fmt: skip
        (self.folder / "siltstone.toml").write_text(settings)
        self.program: Program | None = None
        """What the next start runs in place of this version of ``siltstone``."""
        self._node_id = node_id
        self._port = 0
        self.process = self._new(self._port)

    def _new(self, port: int) -> BrokerProcess:
        options = ("--node-id", str(self._node_id))
        if self.program is None:
            return BrokerProcess(self.folder, port=port, options=options)
        words, environment = self.program.words, self.program.environment
        return BrokerProcess(self.folder, port=port, options=options, program=words, environment=environment)

    def start(self) -> None:
        """Starts it, at the port it had; a start that was refused has none."""
        self._port = self.process.address[1] or self._port
        self.process = self._new(self._port)
        self.process.start()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stops the process by SIGSTOP, like a virtual machine that is moved, or a process that is swapped out."""
        self.process.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.signal(signal.SIGCONT)

    def close(self) -> None:
        if self.process.is_alive:
            self.process.kill()
        self.to_metadata.close()
        self.to_bucket.close()


class ServerCluster:
    """A cluster is used in a ``with``, which ends its brokers. ``observer`` is the store, past all proxies; ``wal`` is
    where the brokers have their logs."""

    def __init__(self, folder: Path, postgres: PostgresServer, s3: S3Server, wal: str = "bucket:0") -> None:
        self.postgres, self.s3 = postgres, s3
        self.schema = schema = postgres.new_schema()
        self.nodes = [Node(folder / f"machine-{n}", n, postgres, s3, schema, wal) for n in NODES]
        self.folder = folder / "observer"
        self.folder.mkdir()
        settings = SETTINGS.format(
            metadata=postgres.url(schema),
            bucket=BUCKET,
            prefix=schema,
            port=urlsplit(s3.endpoint_url).port,
            wal=wal,
        )
        (self.folder / "siltstone.toml").write_text(settings)
        self._opened = ExitStack()
        self.observer: Store

    def __enter__(self) -> "ServerCluster":
        for node in self.nodes:
            self._opened.callback(node.close)
            node.start()
        self.observer = self._opened.enter_context(open_store(load_node_settings(self.folder)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def assert_well_ended(self) -> None:
        """Stops the brokers, and checks their logs and what they leave in the store."""
        for node in self.nodes:
            assert node.process.stop() == 0
        assert "Traceback" not in self.logs
        checked_store(self.folder)

    @property
    def bootstrap(self) -> str:
        return ",".join("{}:{}".format(*node.process.address) for node in self.nodes)

    @property
    def image(self) -> MetadataImage:
        return self.observer.metadata.refresh()

    def leaders(self, topic: str) -> list[int]:
        image = self.image
        return [partition.leader for partition in image.topics[image.topic_ids[topic]].partitions]

    def move(self, topic: str, partition: int, target: int) -> None:
        self.observer.metadata.execute(MovePartitions(((self.image.topic_ids[topic], partition, target),)))

    def drain(self, node_id: int, *, is_draining: bool = True) -> None:
        self.observer.metadata.execute(DrainNode(node_id, is_draining))

    def wait_until_whole(self, topics: Sequence[str]) -> None:
        """Waits until all brokers are live and lead every partition. A broker that was declared dead and then woke
        up has ended itself, and is started again as systemd would."""

        def is_whole() -> bool:
            for node in self.nodes:
                if not node.process.is_alive:
                    node.process.stop()
                    node.start()
            image = self.image
            serving = {n for n in NODES if n in image.nodes and image.nodes[n].is_live}
            return serving == {*NODES} and all(set(self.leaders(topic)) <= serving for topic in topics)

        until(is_whole, "all brokers serve again", WHOLE_SECONDS_MAX)

    @property
    def logs(self) -> str:
        return "\n".join(node.process.log for node in self.nodes)


@contextmanager
def all_cut(proxies: Sequence[CutProxy]) -> Iterator[None]:
    for proxy in proxies:
        proxy.cut()
    try:
        yield
    finally:
        for proxy in proxies:
            proxy.mend()
