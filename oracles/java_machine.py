"""A JVM whose classes this process calls through py4j, without compiling anything. A call costs about 0.1 ms of
loopback, so thousands of questions are asked in few calls each."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from oracles.java_artifacts import PYSPARK_JARS, class_path, java_program
from siltstone.model.limits import MIB

JVM_OPTIONS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    f"-Xmx{512 * MIB}",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
)


class JavaMachine:
    """``classes`` gives any class by its full name: ``machine.classes.java.util.HashMap()``."""

    def __init__(self, gateway: JavaGateway) -> None:
        self.gateway = gateway
        self.classes: Any = gateway.jvm

    def hash_map(self, entries: Mapping[Any, Any]) -> Any:
        made = self.classes.java.util.HashMap()
        for key, value in entries.items():
            made.put(key, value)
        return made

    def array(self, kind: Any, elements: Sequence[Any]) -> Any:
        """Makes an array of objects of the class ``kind``."""
        made = self.gateway.new_array(kind, len(elements))
        for index, element in enumerate(elements):
            made[index] = element
        return made

    def milliseconds(self, value: int) -> Any:
        return self.classes.java.time.Duration.ofMillis(value)


@contextmanager
def running_java_machine(jars: tuple[Path, ...]) -> Iterator[JavaMachine]:
    """Runs a JVM, which ends with the block, or with this process. Raises JavaArtifactsUnavailable."""
    (py4j,) = PYSPARK_JARS.glob("py4j-*.jar")
    port, secret, process = launch_gateway(
        jarpath=str(py4j),
        classpath=class_path(jars),
        javaopts=list(JVM_OPTIONS),
        java_path=str(java_program()),
        redirect_stderr=DEVNULL,
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True)
    )
    try:
        yield JavaMachine(gateway)
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait()
