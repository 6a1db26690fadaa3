"""A cluster of three processes that goes from plaintext to TLS to a login and rights, and a client that produces
meanwhile. The steps are those of docs/security.md."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from confluent_kafka import Consumer, Producer

from siltstone.metadata.image import MetadataImage
from siltstone.offline.opening.store import Store, open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import BrokerProcess
from support.kafka.quiet_client import QUIET
from support.processes.cli import run
from support.processes.ports import free_port
from support.tls.authority import Authority

NODES = (0, 1, 2)
PLAIN, SECURE, LOGIN = "PLAINTEXT", "SECURE", "LOGIN"
PARTITIONS = 6
KEYS = 10 * PARTITIONS
"""Each number has the key of its remainder, and each key is of one partition."""

HANG_SECONDS = 120
SETTINGS = {
    "engine.wal.location": "bucket:0",
    "engine.wal.puts_per_hour_max": "180000",
    "broker.num_partitions": str(PARTITIONS),
    "listener.SECURE.protocol": "SSL",
    "listener.LOGIN.protocol": "SASL_SSL",
}


class RollingNode(BrokerProcess):
    """A node at several listeners, each at a port that it keeps."""

    def __init__(self, cluster: "RollingCluster", node_id: int, listeners: tuple[str, ...]) -> None:
        options = ("--node-id", str(node_id))
        super().__init__(cluster.folder, cluster.settings, options=options, log_name=f"node-{node_id}")
        self._addresses = [f"{name}://127.0.0.1:{cluster.ports[node_id][name]}" for name in listeners]

    @property
    def command(self) -> list[str]:
        words = super().command
        at = words.index("--listener")
        return [
            *words[:at],
            *(part for each in self._addresses for part in ("--listener", each)),
            *words[at + 2 :],
        ]


class RollingCluster:
    """The nodes, and what changes them. ``close`` ends what runs."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder / "store"
        pair = Authority(folder / "authority").issue("broker")
        self.authority = str(folder / "authority" / "authority-a.pem")
        self.settings = SETTINGS | dict(settings or {}) | pair.settings(SECURE) | pair.settings(LOGIN)
        self.ports = {node_id: {name: free_port() for name in (PLAIN, SECURE, LOGIN)} for node_id in NODES}
        self.nodes: dict[int, RollingNode] = {}
        self._store: Store | None = None

    def begin(self) -> None:
        """Starts all nodes with plaintext alone."""
        for node_id in NODES:
            self.start(node_id, PLAIN)

    def start(self, node_id: int, *listeners: str) -> None:
        node = RollingNode(self, node_id, listeners)
        node.start()
        self.nodes[node_id] = node

    def roll(self, *listeners: str) -> None:
        """One drained restart after the other. The next one waits until the restarted node leads partitions again."""
        for node_id in NODES:
            assert self.nodes[node_id].stop() == 0, self.nodes[node_id].log
            self.start(node_id, *listeners)
            self.until(lambda image: sum(node.is_live for node in image.nodes.values()) == len(NODES))

    def until(self, holds: Callable[[MetadataImage], bool]) -> None:
        if self._store is None:
            flags = {"engine.node_id": "99"}
            self._store = open_store(load_node_settings(self.folder, environment={}, flags=flags))
        give_up = time.monotonic() + HANG_SECONDS
        while not holds(self._store.metadata.refresh()):
            assert time.monotonic() < give_up
            time.sleep(0.05)

    def command(self, *words: str, stdin: bytes = b"") -> None:
        done = run(*words, "--store", self.folder, stdin=stdin)
        assert done.status == 0, done.err

    def servers(self, listener: str) -> str:
        return ",".join(f"127.0.0.1:{self.ports[node_id][listener]}" for node_id in NODES)

    def config(self, listener: str) -> dict[str, str]:
        config = {"bootstrap.servers": self.servers(listener), **QUIET}
        if listener != PLAIN:
            config |= {"security.protocol": "SSL", "ssl.ca.location": self.authority}
        if listener == LOGIN:
            config |= {
                "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "ada", "sasl.password": "pencil",
            }  # fmt: skip
        return config

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        for node in self.nodes.values():
            node.stop()


def key_of(number: int) -> bytes:
    return b"%d" % (number % KEYS)


class SteadyProducer:
    """Produces numbers without a pause. ``move`` gives it another listener: it waits for all answers, and continues
    there with the next number, as a program does that is restarted with new settings."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self.failures: list[str] = []
        self.next_number = 0
        self._ends = threading.Event()
        self._begin(config)

    def _begin(self, config: Mapping[str, str]) -> None:
        self._ends.clear()
        self._thread = threading.Thread(target=self._run, args=(dict(config),), daemon=True)
        self._thread.start()

    def _run(self, config: dict[str, str]) -> None:
        producer = Producer({**config, "enable.idempotence": True, "linger.ms": 5})
        while not self._ends.is_set():
            number = self.next_number
            producer.produce(
                "t", str(number).encode(), key_of(number), partition=number % PARTITIONS,
                on_delivery=self._delivered,
            )  # fmt: skip
            self.next_number += 1
            producer.poll(0.002)
        if left := producer.flush(HANG_SECONDS):
            self.failures.append(f"{left} without an answer")

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self.failures.append(str(error))

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(2 * HANG_SECONDS)

    def move(self, config: Mapping[str, str]) -> None:
        self.stop()
        self._begin(config)

    def has_produced(self, count: int) -> None:
        """Waits until so many more records were produced."""
        wanted, give_up = self.next_number + count, time.monotonic() + HANG_SECONDS
        while self.next_number < wanted:
            assert time.monotonic() < give_up
            time.sleep(0.01)


def everything(config: Mapping[str, str], count: int) -> list[int]:
    """Reads from the beginning until ``count`` records are there and the ends are reached."""
    consumer = Consumer({
        **config, "group.id": "reader", "auto.offset.reset": "earliest", "enable.partition.eof": True,
    })  # fmt: skip
    consumer.subscribe(["t"])
    found, ended, give_up = [], set(), time.monotonic() + HANG_SECONDS
    while len(found) < count or len(ended) < PARTITIONS:
        assert time.monotonic() < give_up, (len(found), count, ended)
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            found.append(int(message.value()))
        else:
            ended.add(message.partition())
    consumer.close()
    return found


def change_all(
    cluster: RollingCluster,
    producer: SteadyProducer,
    config: Callable[[str], dict[str, str]],
    moved: Callable[[str], None] = lambda _: None,
    moving: Callable[[str], None] = lambda _: None,
) -> None:
    """Goes from plaintext to TLS to a login with rights, while the producer produces. ``config`` returns the producer's
    settings for a listener; ``moving`` is called before, and ``moved`` when nodes, scans and streams use another
    listener."""
    producer.has_produced(100)
    cluster.roll(PLAIN, SECURE, LOGIN)
    moving(SECURE)
    cluster.command("nodes", "listener", SECURE)
    moved(SECURE)
    producer.move(config(SECURE))
    producer.has_produced(100)
    cluster.command("users", "add", "ada", "--password-file", "-", stdin=b"pencil")
    cluster.command("acls", "add", "ada", "all", "--topic", "*")
    cluster.command("acls", "add", "ada", "all", "--group", "*")
    moving(LOGIN)
    cluster.command("nodes", "listener", LOGIN)
    moved(LOGIN)
    producer.move(config(LOGIN))
    producer.has_produced(100)
    cluster.command("authorization", "on", "--super-user", "User:root")
    producer.has_produced(100)
    cluster.roll(LOGIN)
    producer.has_produced(100)
    producer.stop()
    assert producer.failures == []
    found = everything(cluster.config(LOGIN), producer.next_number)
    assert sorted(found) == [*range(producer.next_number)], "each once"


def begin_secured(cluster: RollingCluster) -> None:
    """Starts all nodes with logins and rights and nothing else."""
    for node_id in NODES:
        cluster.start(node_id, LOGIN)
    cluster.until(lambda image: sum(node.is_live for node in image.nodes.values()) == len(NODES))
    cluster.command("users", "add", "ada", "--password-file", "-", stdin=b"pencil")
    cluster.command("acls", "add", "ada", "all", "--topic", "*")
    cluster.command("acls", "add", "ada", "all", "--group", "*")
    cluster.command("authorization", "on", "--super-user", "User:root")
    cluster.until(lambda image: "ada" in image.users)


def change_back(
    cluster: RollingCluster, producer: SteadyProducer, moved: Callable[[str], None] = lambda _: None
) -> None:
    """Goes the same way back, each step by its opposite, from a cluster of ``begin_secured``."""
    producer.has_produced(100)
    cluster.roll(PLAIN, SECURE, LOGIN)
    cluster.command("authorization", "off")
    producer.has_produced(100)
    for listener in (SECURE, PLAIN):
        cluster.command("nodes", "listener", listener)
        moved(listener)
        producer.move(cluster.config(listener))
        producer.has_produced(100)
    cluster.roll(PLAIN)
    producer.has_produced(100)
    producer.stop()
    assert producer.failures == []
    found = everything(cluster.config(PLAIN), producer.next_number)
    assert sorted(found) == [*range(producer.next_number)], "each once"
