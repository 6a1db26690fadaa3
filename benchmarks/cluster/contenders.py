"""Clusters of three brokers on this machine, ours and Apache Kafka's, behind one port."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.support.places import WORKPLACE
from oracles.apache_kafka import KAFKA_JVM, prepare_apache_kafka
from oracles.broker_process import HOST, free_ports, running_broker
from oracles.broker_process import BrokerProcess as ServedKafka
from siltstone.kafka_protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from siltstone.kafka_protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from siltstone.model.limits import GIB
from support.broker.broker_process import BrokerProcess
from support.kafka.raw_kafka import RawConnection, address_of

SECONDS_MAX = 120
BROKERS = 3


class Reached(Protocol):
    """``name``: of the kind; ``bootstrap``: the addresses of the brokers."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str: ...


class Cluster(Reached, Protocol):
    """Kills a broker; their ids are 0, 1 and 2."""

    def kill(self, node_id: int) -> None:
        """Kills the broker with SIGKILL."""


class Named(NamedTuple):
    """A cluster whose brokers were started by the caller."""

    name: str
    bootstrap: str


class OurCluster:
    """Runs three processes of ``siltstone serve`` on one store. ``wal_location``: that of ``engine.wal.location``."""

    def __init__(self, folder: Path, opened: ExitStack, settings: Mapping[str, str], name: str) -> None:
        self.name = name
        self._nodes = [
            BrokerProcess(folder / "store", settings, options=("--node-id", str(node_id)))
            for node_id in range(BROKERS)
        ]
        for node in self._nodes:
            node.start()
            opened.callback(node.stop)
        self.bootstrap = ",".join("{}:{}".format(*node.address) for node in self._nodes)

    def kill(self, node_id: int) -> None:
        self._nodes[node_id].kill()


class KafkaCluster:
    """Runs three brokers, each of which is also a controller of one quorum."""

    name = "Apache Kafka"

    def __init__(self, folder: Path, opened: ExitStack, replicas: int) -> None:
        ports, controllers = free_ports(BROKERS), free_ports(BROKERS)
        voters = ",".join(f"{n}@{HOST}:{port}" for n, port in enumerate(controllers))
        self._pids: list[int] = []
        prepared = []
        for node_id in range(BROKERS):
            place = folder / f"kafka-{node_id}"
            place.mkdir()
            listeners = f"PLAINTEXT://{HOST}:{ports[node_id]},CONTROLLER://{HOST}:{controllers[node_id]}"
            settings = {
                "node.id": str(node_id),
                "controller.quorum.voters": voters,
                "listeners": listeners,
                "advertised.listeners": f"PLAINTEXT://{HOST}:{ports[node_id]}",
                "default.replication.factor": str(replicas),
                "min.insync.replicas": str(min(2, replicas)),
                "offsets.topic.replication.factor": str(replicas),
            }
            prepared.append(prepare_apache_kafka(place, settings, GIB, KAFKA_JVM))
        running = [
            running_broker(each.command, ports[node_id], each.log) for node_id, each in enumerate(prepared)
        ]
        # A quorum is needed before the first one answers: their processes are all begun before any is waited for.
        for broker in _entered_together(running, opened):
            self._pids.append(broker.pid)
        self.bootstrap = ",".join(f"{HOST}:{port}" for port in ports)

    def kill(self, node_id: int) -> None:
        psutil.Process(self._pids[node_id]).kill()


def _entered_together(
    running: Sequence[AbstractContextManager[ServedKafka]], opened: ExitStack
) -> list[ServedKafka]:
    """Enters several contexts at once, each in a thread of its own; returns their values in order."""
    with ThreadPoolExecutor(len(running)) as threads:
        entered = list(threads.map(lambda context: context.__enter__(), running))
    for context in running:
        opened.push(context.__exit__)
    return entered


@contextmanager
def our_cluster(settings: Mapping[str, str], name: str = "Siltstone") -> Iterator[OurCluster]:
    with _place() as folder, ExitStack() as opened:
        yield OurCluster(folder, opened, settings, name)


@contextmanager
def kafka_cluster(replicas: int) -> Iterator[KafkaCluster]:
    with _place() as folder, ExitStack() as opened:
        yield KafkaCluster(folder, opened, replicas)


@contextmanager
def _place() -> Iterator[Path]:
    WORKPLACE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORKPLACE, ignore_cleanup_errors=True) as folder:
        yield Path(folder).absolute()


# -- what both are asked for ---------------------------------------------------------------------------------


def made_topic(cluster: Reached, topic: str, partitions: int, replicas: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, partitions, replicas)])[topic].result(SECONDS_MAX)


def leaders(cluster: Reached, topic: str) -> list[int]:
    """Returns the leader of each partition; -1 for one that has none now."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    found = admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions
    return [found[number].leader for number in sorted(found)]


def move(cluster: Reached, topic: str, targets: Sequence[tuple[int, int]]) -> float:
    """Reassigns partitions, each to the one given replica, and waits until no reassignment is left. Returns the
    seconds of it."""
    rows = [ReassignablePartition(partition_index=at, replicas=[target]) for at, target in targets]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=rows)])
    with RawConnection(address_of(cluster.bootstrap.split(",")[0]), timeout_s=SECONDS_MAX) as connection:
        begun = time.monotonic()
        answer = connection.ask(request, 0)
        assert answer.error_code == 0, answer
        refused = [each for row in answer.responses for each in row.partitions if each.error_code]
        assert not refused, refused[:3]
        while connection.ask(ListPartitionReassignmentsRequest(), 0).topics:
            assert time.monotonic() < begun + SECONDS_MAX, "the move did not end"
            time.sleep(0.01)
        return time.monotonic() - begun
