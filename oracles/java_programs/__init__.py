"""Java programs in processes of their own, so that a test can kill them: those of this folder, which Eclipse's compiler
compiles into ``.build/java/programs``, and a worker of Kafka Connect."""

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from oracles import java_artifacts
from oracles.java_artifacts import (
    ECLIPSE_COMPILER,
    FLINK,
    KAFKA_CONNECT,
    KAFKA_STREAMS,
    ArtifactSet,
    class_path,
    fetch_jars,
    java_program,
)

SOURCES = Path(__file__).parent
COMPILE_SECONDS_MAX = 300
JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
OPENED = ("java.base/java.util", "java.base/java.lang", "java.base/java.time")
"""Flink's serializers look into these packages."""


class JavaProgram:
    """A program that is started, killed and started again. ``log``: what all its processes have written to stderr."""

    def __init__(self, command: Sequence[str], log_path: Path) -> None:
        self._command = list(command)
        self._log_path = log_path
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "JavaProgram":
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_alive:
            self.kill()

    def start(self, *more: str) -> None:
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen([*self._command, *more], stdout=log, stderr=log)

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, seconds: float) -> int | None:
        """Stops the program as an operator does; returns its exit status, None if it had to be killed."""
        assert self._process is not None
        self._process.terminate()
        status = self.exit_status(seconds)
        if status is None:
            self.kill()
        return status

    def exit_status(self, seconds: float) -> int | None:
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    @property
    def log(self) -> str:
        return self._log_path.read_text(errors="replace")


def word_count(folder: Path, bootstrap_servers: str) -> JavaProgram:
    """Returns the word count of Kafka Streams. Raises JavaArtifactsUnavailable."""
    command = [*_compiled("WordCount", KAFKA_STREAMS), bootstrap_servers, str(folder / "state")]
    return JavaProgram(command, folder / "word-count.txt")


def flink_numbers(
    folder: Path, bootstrap_servers: str, count: int, per_second: int, naming: str
) -> JavaProgram:
    """Returns the job of Flink; ``start`` takes the checkpoint to go on from. Raises JavaArtifactsUnavailable."""
    command = [*_compiled("FlinkNumbers", FLINK), bootstrap_servers, str(count), str(per_second), naming]
    return JavaProgram([*command, str(folder / "checkpoints")], folder / "flink.txt")


def connect_worker(
    folder: Path,
    properties: dict[str, str],
    artifacts: ArtifactSet = KAFKA_CONNECT,
    more: tuple[Path, ...] = (),
) -> JavaProgram:
    """Returns a worker of Connect with the connectors of ``artifacts``, and ``more`` jars. Raises
    JavaArtifactsUnavailable."""
    settings = folder / "connect.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    jars = (*fetch_jars(artifacts), *more)
    command = _java(class_path(jars), "org.apache.kafka.connect.cli.ConnectDistributed")
    return JavaProgram([*command, str(settings)], folder / "connect.txt")


def _compiled(name: str, artifacts: ArtifactSet) -> list[str]:
    """Returns the command of a program of this folder; compiles it if it was changed."""
    jars, source = fetch_jars(artifacts), SOURCES / f"{name}.java"
    digest = hashlib.sha256("".join([source.read_text(), *map(str, jars)]).encode()).hexdigest()[:16]
    classes = java_artifacts.JARS / "programs" / f"{name}-{digest}"
    if not classes.exists():
        _compile(source, jars, classes)
    return _java(os.pathsep.join([str(classes), class_path(jars)]), name)


def _compile(source: Path, jars: tuple[Path, ...], into: Path) -> None:
    (compiler,) = fetch_jars(ECLIPSE_COMPILER)
    into.parent.mkdir(exist_ok=True)
    filling = Path(tempfile.mkdtemp(dir=into.parent, prefix="filling-"))
    command = [str(java_program()), "-jar", str(compiler), "-17", "-proc:none", "-nowarn", "-d", str(filling)]
    try:
        done = subprocess.run(
            [*command, "-cp", class_path(jars), str(source)],
            capture_output=True, text=True, timeout=COMPILE_SECONDS_MAX, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        if not into.exists():
            filling.rename(into)
    finally:
        shutil.rmtree(filling, ignore_errors=True)


def _java(path: str, main: str) -> list[str]:
    opened = [word for package in OPENED for word in ("--add-opens", f"{package}=ALL-UNNAMED")]
    return [
        str(java_program()),
        *JVM_OPTIONS,
        *opened,
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp",
        path,
        main,
    ]
