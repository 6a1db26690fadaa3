"""The first SIGTERM ends a process within the promised time, in every state and whatever hangs; the second one at once.

One table of states and of what hangs, with real processes. The bucket hangs as an S3 endpoint that accepts connections
and never answers, or does not exist; the metadata hang as a database that this test has locked. Short time limits make
each case take seconds.
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
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
import pytest

from siltstone.cli.failures import INTERRUPTED, STOPPED_EARLY
from siltstone.cli.interruption import STOP_MS_MAX
from support.engine.s3_server import BUCKET, running_s3_server
from support.kafka.raw_calls import batch_of, create_topic, produce_well
from support.kafka.raw_kafka import RawConnection

CLOSE_MS = {"network.close_time_limit_ms": "500", "engine.close_time_limit_ms": "2000"}
PROMISED_SECONDS = 2.5
"""The two limits together."""

SLACK_SECONDS = 2.0
"""For a machine that is busy: what hangs here, hangs for half a minute and more."""

AT_ONCE_SECONDS = 1.5
READY = re.compile(r"Siltstone is ready at (\S+):(\d+) ")
PROGRAM = [sys.executable, "-c", "from siltstone.cli.main import main; main()"]
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_EC2_METADATA_DISABLED": "true"}


class Running:
    """A command in a process of its own; what it says goes to a file."""

    def __init__(self, said: Path, *arguments: object) -> None:
        self.said = said
        with said.open("wb") as output:
            self.process = subprocess.Popen(
                [*PROGRAM, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**CREDENTIALS, **os.environ, "PYTHONUNBUFFERED": "1"},
            )

    @property
    def text(self) -> str:
        return self.said.read_text(errors="replace")

    def wait_for(self, word: str) -> None:
        self.wait_until(lambda: word in self.text)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.text}"
            assert time.monotonic() < deadline, f"that never came: {self.text}"
            time.sleep(0.01)

    @property
    def open_files(self) -> list[str]:
        links = Path(f"/proc/{self.process.pid}/fd").iterdir()
        return [os.readlink(link) for link in links if link.is_symlink()]

    def has_open(self, name: str) -> bool:
        return any(path.endswith(name) for path in self.open_files)

    @property
    def is_connected(self) -> bool:
        return any(path.startswith("socket:") for path in self.open_files)

    def ends_after_sigterm(self, seconds: float) -> int:
        """Sends SIGTERM. → The exit status; fails if the process lives longer than ``seconds``."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"alive {seconds} s after SIGTERM: {self.text}") from None


@contextmanager
def running(said: Path, *arguments: object) -> Iterator[Running]:
    run = Running(said, *arguments)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.wait()
        assert run.process.stdin is not None
        run.process.stdin.close()


@contextmanager
def silent_endpoint() -> Iterator[str]:
    """The URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def locked(database: Path) -> Iterator[None]:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute("BEGIN EXCLUSIVE")
        yield


class Place(msgspec.Struct, frozen=True):
    """Where one case happens."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def serve(self, *options: object) -> Iterator[Running]:
        settings = [option for key, value in CLOSE_MS.items() for option in ("--set", f"{key}={value}")]
        return running(
            self.folder / "said",
            "serve",
            "--store",
            self.store,
            "--listener",
            "127.0.0.1:0",
            *settings,
            *options,
        )

    def s3(self, endpoint: str) -> str:
        return f"s3://silt/store?endpoint_url={endpoint}&region=us-east-1"

    def produce(self, broker: Running) -> tuple[str, int]:
        """One acknowledged record that is not uploaded, because blocks are sealed late."""
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
        """From now on every put is refused."""
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


class Forwarder:
    """Forwards connections to an S3 server, until it is silent: then nothing comes back."""

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
    Case(serving_with_a_silent_bucket, STOPPED_EARLY, marks=(pytest.mark.s3,)),
]
OFTEN = {"starting_with_locked_metadata", "serving_with_locked_metadata", "serving_with_nothing_that_hangs"}


NIGHTLY = [
    pytest.param(case, id=f"{case.name}-nightly", marks=[pytest.mark.nightly, *case.marks]) for case in CASES
]
QUICK = [pytest.param(case, id=case.name) for case in CASES if case.name in OFTEN]


@pytest.mark.crash
@pytest.mark.parametrize("case", QUICK + NIGHTLY)
def test_the_first_sigterm_ends_a_broker_in_the_promised_time(tmp_path: Path, case: Case) -> None:
    with case.state(Place(tmp_path)) as broker:
        assert broker.ends_after_sigterm(case.seconds + SLACK_SECONDS) == case.status
        assert "Traceback" not in broker.text


@pytest.mark.crash
@pytest.mark.parametrize("state", [serving_with_locked_metadata])
def test_a_second_sigterm_ends_a_broker_at_once(tmp_path: Path, state: Callable) -> None:
    with state(Place(tmp_path)) as broker:
        broker.process.send_signal(signal.SIGTERM)
        broker.wait_for("press again to exit now")
        assert broker.ends_after_sigterm(AT_ONCE_SECONDS) == STOPPED_EARLY
        assert "a second signal" in broker.text
    with Place(tmp_path).serve() as broker:
        broker.wait_for("is ready at")
        assert broker.ends_after_sigterm(PROMISED_SECONDS + SLACK_SECONDS) == 0


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
        (produce, AT_ONCE_SECONDS, {-signal.SIGTERM, INTERRUPTED}),
        (tail, AT_ONCE_SECONDS, {-signal.SIGTERM, INTERRUPTED}),
    ],
)
def test_sigterm_ends_the_other_long_commands(
    tmp_path: Path, state: Callable, seconds: float, statuses: set[int]
) -> None:
    with state(Place(tmp_path)) as command:
        assert command.ends_after_sigterm(seconds + SLACK_SECONDS) in statuses
