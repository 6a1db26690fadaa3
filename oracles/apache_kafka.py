"""A real Apache Kafka with one node (KRaft: broker and controller in one process) on this machine. Its settings are
Kafka's own, except for what one node cannot have: three replicas of its internal topics."""

import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from oracles.broker_process import HOST, BrokerProcess, free_ports, running_broker
from oracles.java_artifacts import APACHE_KAFKA, class_path, fetch_jars, java_program
from siltstone.model.limits import MIB

CLUSTER_ID = "c2lsdHN0b25lLW9yYWNsZQ"
LIGHT_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""The JVM options for tests, with which Kafka starts in half the time. Benchmarks use KAFKA_JVM."""
KAFKA_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""The JVM options of Kafka's own start script."""


class PreparedKafka(msgspec.Struct, frozen=True):
    """A formatted storage folder, and the command that serves it."""

    command: tuple[str, ...]
    port: int
    log: Path


@contextmanager
def running_apache_kafka(
    settings: Mapping[str, str] | None = None,
    heap_bytes: int = 512 * MIB,
    jvm_options: tuple[str, ...] = LIGHT_JVM,
) -> Iterator[BrokerProcess]:
    """Runs the broker in a temporary folder, which is removed afterwards. ``settings`` override ours. Raises
    JavaArtifactsUnavailable and BrokerNotStarted."""
    with tempfile.TemporaryDirectory(prefix="siltstone-kafka-", ignore_cleanup_errors=True) as folder:
        prepared = prepare_apache_kafka(Path(folder), settings, heap_bytes, jvm_options)
        with started(prepared) as broker:
            yield broker


@contextmanager
def started(prepared: PreparedKafka) -> Iterator[BrokerProcess]:
    with running_broker(prepared.command, prepared.port, prepared.log) as broker:
        yield broker


def prepare_apache_kafka(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    heap_bytes: int = 512 * MIB,
    jvm_options: tuple[str, ...] = LIGHT_JVM,
    listeners: tuple[str, ...] = (),
) -> PreparedKafka:
    """Chooses ports and formats the storage under ``folder``, for which a JVM is started. ``listeners``: more of them,
    whose ports the caller has chosen."""
    jars = fetch_jars(APACHE_KAFKA)
    port, controller_port = free_ports(2)
    properties = folder / "server.properties"
    chosen = {**_settings(folder, port, controller_port), **(settings or {})}
    chosen["listeners"] = ",".join((chosen["listeners"], *listeners))
    properties.write_text("".join(f"{name}={value}\n" for name, value in chosen.items()))
    java = [str(java_program()), "-cp", class_path(jars)]
    java += ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Djava.awt.headless=true"]
    _format(java, properties)
    heap = [f"-Xms{heap_bytes}", f"-Xmx{heap_bytes}"]
    command = (*java, *heap, *jvm_options, "kafka.Kafka", str(properties))
    return PreparedKafka(command, port, folder / "server.log")


def _settings(folder: Path, port: int, controller_port: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


def _format(java: list[str], properties: Path) -> None:
    command = [
        *java,
        *LIGHT_JVM,
        "kafka.tools.StorageTool",
        "format",
        "-t",
        CLUSTER_ID,
        "-c",
        str(properties),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
