"""Runs kcat to its end or keeps it running, and parses what it printed of each record."""

import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from conformance.drivers.payloads import numbers
from conformance.drivers.scenario import Scenario

SECONDS_MAX = 30
_FORMAT = r"%t %p %o %T %K %S %h\x01%k%s"
_HEAD = re.compile(rb"(\S+) (\d+) (\d+) (-?\d+) (-?\d+) (-?\d+) ([^\x01]*)\x01")
_LOG_HEAD = re.compile(r"%\d\|[\d.]+\|\w+\|[^|]*?\| |\[thrd:\w+\]: ")
_REBALANCE = re.compile(r"rebalanced.*?(assigned|revoked|assignment|revoke)(?: of (\d+) part)?([^\n]*)")


class KcatFailed(Exception):
    """kcat ended with an error; the text of the exception is its output."""


class Printed(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    headers: str
    key: bytes | None
    value: bytes | None


def command(scenario: Scenario, *options: str) -> list[str]:
    return ["kcat", "-b", scenario.bootstrap, "-m", "10", *options]


def run(scenario: Scenario, *options: str, text: bytes = b"") -> bytes:
    """Returns the output of kcat. Raises KcatFailed."""
    done = subprocess.run(
        command(scenario, *options), input=text, capture_output=True, timeout=SECONDS_MAX, check=False
    )
    said = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        raise KcatFailed(said)
    return done.stdout


def send_files(scenario: Scenario, topic: str, payloads: list[bytes], *options: str) -> None:
    """Sends each payload as a message, whatever its bytes are: kcat takes a file as one message."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number:05}" for number in range(len(payloads))]
        for path, payload in zip(paths, payloads, strict=True):
            path.write_bytes(payload)
        run(scenario, "-P", "-t", topic, *options, *map(str, paths))


def send_lines(scenario: Scenario, topic: str, lines: list[bytes], *options: str) -> None:
    run(scenario, "-P", "-t", topic, *options, text=b"".join(line + b"\n" for line in lines))


def read(scenario: Scenario, topic: str, count: int, *options: str) -> list[Printed]:
    """Reads from the beginning of all partitions, unless ``options`` say otherwise."""
    place = () if "-o" in options else ("-o", "beginning")
    return printed(run(scenario, "-C", "-q", "-t", topic, *place, "-c", str(count), "-f", _FORMAT, *options))


def read_to_end(scenario: Scenario, topic: str, *options: str) -> list[Printed]:
    place = () if "-o" in options else ("-o", "beginning")
    return printed(run(scenario, "-C", "-q", "-t", topic, *place, "-e", "-f", _FORMAT, *options))


def printed(output: bytes) -> list[Printed]:
    records: list[Printed] = []
    while head := _HEAD.match(output):
        topic, partition, offset, timestamp, key_size, value_size, headers = head.groups()
        key, rest = _piece(output[head.end() :], int(key_size))
        value, output = _piece(rest, int(value_size))
        place = (topic.decode(), int(partition), int(offset), int(timestamp))
        records.append(Printed(*place, headers.decode(), key, value))
    return records


def _piece(output: bytes, size: int) -> tuple[bytes | None, bytes]:
    return (None, output) if size < 0 else (output[:size], output[size:])


class Running:
    """A kcat that runs until ``end``, with its output so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._output = bytearray()
        self._said = bytearray()
        self._gathering = [
            threading.Thread(target=_gather, args=gathered, daemon=True)
            for gathered in ((process.stdout, self._output), (process.stderr, self._said))
        ]
        for each in self._gathering:
            each.start()

    @property
    def records(self) -> list[Printed]:
        return printed(bytes(self._output))

    @property
    def rebalances(self) -> int:
        """The number of partitions in its assignment, as its output says."""
        return self._said.count(b"rebalanced")

    @property
    def partitions(self) -> int:
        """The number of records that it has printed."""
        owned = 0
        for told, many, named in _REBALANCE.findall(self._said.decode(errors="replace")):
            if told == "assigned":
                owned = named.count("[")
            elif told == "revoked":
                owned = 0
            else:
                owned += int(many) if told == "assignment" else -int(many)
        return owned

    def write(self, text: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def end(self) -> None:
        """Stops kcat as by Ctrl-C: it commits and leaves its group."""
        self.process.send_signal(signal.SIGINT)
        self.wait()

    def wait(self) -> int:
        """Waits for the end of kcat and of its output, and returns its exit status."""
        status = self.process.wait(SECONDS_MAX)
        for each in self._gathering:
            each.join(SECONDS_MAX)
        return status

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def finish(self) -> None:
        """Closes the input of kcat."""
        self.close_input()
        if self.wait():
            raise KcatFailed(self._said.decode(errors="replace"))


@contextmanager
def running(scenario: Scenario, *options: str) -> Iterator[Running]:
    process = subprocess.Popen(
        command(scenario, *options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield Running(process)
    finally:
        process.kill()
        process.wait()


@contextmanager
def member(scenario: Scenario, topic: str, *options: str) -> Iterator[Running]:
    """Starts a member of the scenario's group."""
    group = ("-G", scenario.name, "-u", "-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=200")
    with running(scenario, *group, "-f", _FORMAT, *options, topic) as started:
        yield started


def _gather(stream: object, target: bytearray) -> None:
    while part := stream.read1(65_536):  # type: ignore[attr-defined]
        target += part


def refusal(error: Exception) -> str | None:
    """Returns the first line of an error, without the prefix of librdkafka's log."""
    if not isinstance(error, KcatFailed):
        return None
    lines = [_LOG_HEAD.sub("", line).strip() for line in str(error).splitlines()]
    return next((line for line in lines if "rror" in line), "\n".join(lines))


def values_of(records: list[Printed]) -> list[bytes | None]:
    return [record.value for record in records]


def blocks(count: int, first: int = 0) -> list[bytes]:
    """Lines of the size in which kcat reads its input: a line is sent when it is complete."""
    return [number.ljust(1023) for number in numbers(count, first)]


def typed(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def isolation(level: str) -> tuple[str, str]:
    return "-X", f"isolation.level={level}"
