"""The first SIGTERM ends a process within the promised time, in every state and whatever hangs; the second one at once.

One table of states and of what hangs, with real processes. The bucket hangs as an S3 endpoint that accepts connections
and never answers, or does not exist; the metadata hang as a database that this test has locked; a disk hangs as calls
that do not return (``support.faults.hanging_serve``). Short time limits make each case take seconds.
"""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
import pytest

from siltstone.cli.failures import INTERRUPTED, STOPPED_EARLY
from siltstone.cli.interruption import STOP_MS_MAX
from support.engine.s3_server import BUCKET, running_s3_server
from support.kafka.raw_calls import RawTopic, batch_of, create_topic, produce_request, produce_well
from support.kafka.raw_kafka import RawConnection
from support.processes.tried import RecordTried

CLOSE_MS = {"network.close_time_limit_ms": "500", "engine.close_time_limit_ms": "2000"}
PROMISED_SECONDS = 2.5
"""The two limits of ``serve`` together."""

SLACK_SECONDS = 20.0
"""The time for a busy machine: a call that hangs here hangs for half a minute and more."""

CLOSE_LATE_MS = dict.fromkeys(CLOSE_MS, "60000")
AT_ONCE_SECONDS = 20.0
"""The time for a second signal, which waits for nothing: a third of ``CLOSE_LATE_MS``."""

READY = re.compile(r"Siltstone is ready at (\S+):(\d+) ")
PROGRAM = (sys.executable, "-c", "from siltstone.cli.main import main; main()")
TESTS = Path(__file__).parents[1]
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_EC2_METADATA_DISABLED": "true"}


class Running:
    """A command in a process of its own. What it prints is written to a file."""

    def __init__(self, said: Path, *arguments: object, program: Sequence[str] = PROGRAM) -> None:
        self.said = said
        path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
        with said.open("wb") as output:
            self.process = subprocess.Popen(
                [*program, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**CREDENTIALS, **os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": path},
            )

    @property
    def text(self) -> str:
        return self.said.read_text(errors="replace")

    def wait_for(self, word: str) -> None:
        self.wait_until(lambda: word in self.text)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.text}"
            assert time.monotonic() < deadline, f"that never came: {self.text}"
            time.sleep(0.01)

    @property
    def open_files(self) -> list[str]:
        found = []
        for link in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # it was closed meanwhile
                found.append(os.readlink(link))
        return found

    def has_open(self, name: str) -> bool:
        return any(path.endswith(name) for path in self.open_files)

    @property
    def is_asleep(self) -> bool:
        """Returns whether its main thread sleeps for a time, as SQLite does while another process has the lock."""
        return "nanosleep" in Path(f"/proc/{self.process.pid}/wchan").read_text()

    @property
    def is_connected(self) -> bool:
        return any(path.startswith("socket:") for path in self.open_files)

    def ends_after_further_sigterms(self, seconds: float) -> int:
        """Sends SIGTERM again and again, because one that follows the first at once counts as the same. Returns the
        exit status; fails if the process lives longer than ``seconds``."""
        deadline = time.monotonic() + seconds
        while (status := self.process.poll()) is None:
            assert time.monotonic() < deadline, f"alive {seconds} s after a second SIGTERM: {self.text}"
            self.process.send_signal(signal.SIGTERM)
            time.sleep(0.02)
        return status

    def ends_after_sigterm(self, seconds: float) -> int:
        """Sends SIGTERM. Returns the exit status; fails if the process lives longer than ``seconds``."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"alive {seconds} s after SIGTERM: {self.text}") from None


@contextmanager
def running(said: Path, *arguments: object, program: Sequence[str] = PROGRAM) -> Iterator[Running]:
    run = Running(said, *arguments, program=program)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.wait()
        assert run.process.stdin is not None
        run.process.stdin.close()


@contextmanager
def silent_endpoint() -> Iterator[str]:
    """Yields the URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def locked(database: Path) -> Iterator[None]:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute("BEGIN EXCLUSIVE")
        yield


class Place(msgspec.Struct, frozen=True):
    """The place where one case happens."""

    folder: Path
    program: Sequence[str] = PROGRAM
    close_ms: Mapping[str, str] = msgspec.field(default_factory=lambda: CLOSE_MS)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def serve(self, *options: object) -> Iterator[Running]:
        settings = [option for key, value in self.close_ms.items() for option in ("--set", f"{key}={value}")]
        return running(
            self.folder / "said",
            "serve",
            "--store",
            self.store,
            "--listener",
            "127.0.0.1:0",
            *settings,
            *options,
            program=self.program,
        )

    def with_a_disk(self, name: str) -> "Place":
        """Returns the same place for a program whose disk below that folder of the store hangs while ``hang``
        exists."""
        program = (
            sys.executable,
            "-m",
            "support.faults.hanging_serve",
            str(self.store / name),
            str(self.hang),
        )
        return msgspec.structs.replace(self, program=program)

    @property
    def hang(self) -> Path:
        return self.folder / "hang"

    def s3(self, endpoint: str) -> str:
        return f"s3://silt/store?endpoint_url={endpoint}&region=us-east-1"

    def produce(self, broker: Running) -> tuple[str, int]:
        """Appends one acknowledged record that is not uploaded, because blocks are sealed late."""
        broker.wait_for("is ready at")
        match = READY.search(broker.text)
        assert match is not None
        address = match[1], int(match[2])
        with RawConnection(address) as connection:
            produce_well(connection, create_topic(connection, "t"), batch_of())
        return address

    def store_with_records_in_its_log(self) -> None:
        with self.serve() as broker:
            self.produce(broker)
            broker.process.kill()
            broker.process.wait()

    def replace_bucket(self) -> Path:
        """Every put is refused from now on."""
        away = (self.store / "bucket").rename(self.store / "away")
        (self.store / "bucket").write_text("not a folder")
        return away


# -- the states of a broker, each with what hangs --------------------------------------------------------


@contextmanager
def starting_anew_with_a_silent_bucket(place: Place) -> Iterator[Running]:
    with silent_endpoint() as endpoint, place.serve("--bucket", place.s3(endpoint)) as broker:
        broker.wait_for("still starting")
        yield broker


@contextmanager
def starting_with_locked_metadata(place: Place) -> Iterator[Running]:
    place.store_with_records_in_its_log()
    with locked(place.store / "metadata.sqlite"), place.serve() as broker:
        broker.wait_for("still starting")
        yield broker


@contextmanager
def starting_with_a_log_and_a_silent_bucket(place: Place) -> Iterator[Running]:
    place.store_with_records_in_its_log()
    with silent_endpoint() as endpoint, place.serve("--bucket", place.s3(endpoint)) as broker:
        broker.wait_for("still starting")
        yield broker


@contextmanager
def serving_with_locked_metadata(place: Place) -> Iterator[Running]:
    with place.serve() as broker:
        place.produce(broker)
        with locked(place.store / "metadata.sqlite"):
            yield broker


@contextmanager
def serving_with_a_bucket_that_refuses(place: Place) -> Iterator[Running]:
    with place.serve("--set", "engine.upload.cache_block_bytes_max=1") as broker:
        broker.wait_for("is ready at")
        place.replace_bucket()
        place.produce(broker)
        broker.wait_for("cannot upload to")
        yield broker


@contextmanager
def serving_with_nothing_that_hangs(place: Place) -> Iterator[Running]:
    with place.serve() as broker:
        place.produce(broker)
        yield broker


@contextmanager
def serving_with_a_silent_bucket(place: Place) -> Iterator[Running]:
    with running_s3_server() as server, Forwarder(server.endpoint_url) as forwarder:
        url = server.bucket_url(BUCKET, "store").replace(quote(server.endpoint_url, safe=""), forwarder.url)
        with place.serve("--bucket", url) as broker:
            broker.wait_for("is ready at")
            forwarder.is_silent.set()
            place.produce(broker)
            yield broker


@contextmanager
def starting_with_a_hanging_disk_of_the_log(place: Place) -> Iterator[Running]:
    place.store_with_records_in_its_log()
    place.hang.touch()
    with place.with_a_disk("wal").serve() as broker:
        broker.wait_for("still starting: it waits for the disks of ")
        yield broker


@contextmanager
def starting_with_a_hanging_disk_of_the_bucket(place: Place) -> Iterator[Running]:
    place.store_with_records_in_its_log()
    place.hang.touch()
    with place.with_a_disk("bucket").serve() as broker:
        broker.wait_for("still starting: it waits for the buckets ")
        yield broker


@contextmanager
def serving_with_a_hanging_disk_of_the_log(place: Place) -> Iterator[Running]:
    with place.with_a_disk("wal").serve() as broker:
        host, port = place.produce(broker)
        place.hang.touch()
        with RawConnection((host, port)) as connection:
            connection.send(produce_request(RawTopic("t"), {0: batch_of()}), 9)
            broker.wait_for("the disk of the write-ahead log")
            yield broker


@contextmanager
def serving_with_a_hanging_disk_of_the_bucket(place: Place) -> Iterator[Running]:
    with place.with_a_disk("bucket").serve() as broker:
        place.produce(broker)
        place.hang.touch()
        yield broker


class Forwarder:
    """Forwards connections to an S3 server until it is silenced: from then on it passes no answers."""

    def __init__(self, endpoint_url: str) -> None:
        parts = urlsplit(endpoint_url)
        self._target = (parts.hostname, parts.port)
        self._server = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.is_silent = threading.Event()

    def __enter__(self) -> "Forwarder":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(self._target)
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError), source:
            while data := source.recv(65536):
                if not self.is_silent.is_set():
                    sink.sendall(data)


class Case(msgspec.Struct, frozen=True):
    state: Callable[[Place], Iterator[Running]]
    status: int
    seconds: float = PROMISED_SECONDS
    marks: tuple[pytest.MarkDecorator, ...] = ()

    @property
    def name(self) -> str:
        return self.state.__name__


CASES = [
    Case(starting_anew_with_a_silent_bucket, STOPPED_EARLY, seconds=1),
    Case(starting_with_locked_metadata, STOPPED_EARLY, seconds=1),
    Case(starting_with_a_log_and_a_silent_bucket, STOPPED_EARLY, seconds=1),
    Case(serving_with_locked_metadata, STOPPED_EARLY),
    Case(serving_with_a_bucket_that_refuses, STOPPED_EARLY),
    Case(serving_with_nothing_that_hangs, 0),
    Case(starting_with_a_hanging_disk_of_the_log, STOPPED_EARLY, seconds=1),
    Case(starting_with_a_hanging_disk_of_the_bucket, STOPPED_EARLY, seconds=1),
    Case(serving_with_a_hanging_disk_of_the_log, STOPPED_EARLY),
    Case(serving_with_a_hanging_disk_of_the_bucket, STOPPED_EARLY),
    Case(serving_with_a_silent_bucket, STOPPED_EARLY, marks=(pytest.mark.s3,)),
]
OFTEN = {"starting_with_locked_metadata", "serving_with_nothing_that_hangs"}


NIGHTLY = [
    pytest.param(case, id=f"{case.name}-nightly", marks=[pytest.mark.nightly, *case.marks]) for case in CASES
]
QUICK = [pytest.param(case, id=case.name) for case in CASES if case.name in OFTEN]


@pytest.mark.crash
@pytest.mark.parametrize("case", QUICK + NIGHTLY)
def test_the_first_sigterm_ends_a_broker_in_the_promised_time(
    tmp_path: Path, case: Case, record_tried: RecordTried
) -> None:
    record_tried("signals", 1)
    with case.state(Place(tmp_path)) as broker:
        assert broker.ends_after_sigterm(case.seconds + SLACK_SECONDS) == case.status
        assert "Traceback" not in broker.text


@pytest.mark.crash
@pytest.mark.parametrize("state", [serving_with_locked_metadata])
def test_a_second_sigterm_ends_a_broker_at_once(tmp_path: Path, state: Callable) -> None:
    with state(Place(tmp_path, close_ms=CLOSE_LATE_MS)) as broker:
        broker.process.send_signal(signal.SIGTERM)
        broker.wait_for("press again to exit now")
        assert broker.ends_after_further_sigterms(AT_ONCE_SECONDS) == STOPPED_EARLY
        assert "a second signal" in broker.text
    with Place(tmp_path).serve() as broker:
        broker.wait_for("is ready at")
        assert broker.ends_after_sigterm(PROMISED_SECONDS + SLACK_SECONDS) == 0


@pytest.mark.crash
def test_a_signal_of_timeout_which_comes_twice_is_one(tmp_path: Path) -> None:
    """Runs serve below ``timeout``, which signals its child and at once the group of its child, and returns the
    status of its child."""
    with Place(tmp_path, ("timeout", "60", *PROGRAM)).serve() as broker:
        Place(tmp_path).produce(broker)
        assert broker.ends_after_sigterm(PROMISED_SECONDS + SLACK_SECONDS) == 0
        assert "a second signal" not in broker.text


# -- other commands --------------------------------------------------------------------------------------


@contextmanager
def maintain_serve(place: Place) -> Iterator[Running]:
    place.store_with_records_in_its_log()
    with running(place.folder / "other", "maintain", "serve", "--store", place.store) as command:
        command.wait_for("Maintenance is running")
        with locked(place.store / "metadata.sqlite"):
            yield command


@contextmanager
def maintain_run(place: Place) -> Iterator[Running]:
    place.store_with_records_in_its_log()
    other = (place.folder / "other", "maintain", "run", "--store", place.store)
    with locked(place.store / "metadata.sqlite"), running(*other) as command:
        command.wait_until(lambda: command.has_open("metadata.sqlite"))
        yield command


@contextmanager
def maintain_run_that_writes_to_locked_metadata(place: Place) -> Iterator[Running]:
    """The main thread of the process is inside SQLite, where Python handles no signal."""
    place.store_with_records_in_its_log()
    other = (place.folder / "other", "maintain", "run", "--store", place.store)
    with locked(place.store / "metadata.sqlite"), running(*other) as command:
        command.wait_until(lambda: command.has_open("metadata.sqlite") and command.is_asleep)
        yield command


@contextmanager
def produce(place: Place) -> Iterator[Running]:
    with place.serve() as broker:
        host, port = place.produce(broker)
        with running(place.folder / "other", "produce", "t", "--bootstrap", f"{host}:{port}") as command:
            command.wait_until(lambda: command.is_connected)  # it reads stdin, which stays open and empty
            yield command


@contextmanager
def tail(place: Place) -> Iterator[Running]:
    with place.serve() as broker:
        host, port = place.produce(broker)
        with running(place.folder / "other", "tail", "t", "--bootstrap", f"{host}:{port}") as command:
            command.wait_until(lambda: command.is_connected)
            yield command


@pytest.mark.crash
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("state", "seconds", "statuses"),
    [
        (maintain_serve, STOP_MS_MAX / 1000, {0, INTERRUPTED}),
        (maintain_run, STOP_MS_MAX / 1000, {-signal.SIGTERM, INTERRUPTED}),
        (maintain_run_that_writes_to_locked_metadata, STOP_MS_MAX / 1000, {INTERRUPTED}),
        (produce, 0, {-signal.SIGTERM, INTERRUPTED}),
        (tail, 0, {-signal.SIGTERM, INTERRUPTED}),
    ],
)
def test_sigterm_ends_the_other_long_commands(
    tmp_path: Path, state: Callable, seconds: float, statuses: set[int], record_tried: RecordTried
) -> None:
    record_tried("signals", 1)
    with state(Place(tmp_path)) as command:
        assert command.ends_after_sigterm(seconds + SLACK_SECONDS) in statuses
