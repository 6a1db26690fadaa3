"""Defines the scene of a fault: a store with its parts apart, ``siltstone serve`` on it, producers, and the history
of their acknowledgements."""

import hashlib
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from siltstone.model.errors import Unavailable
from siltstone.model.objects import object_key
from siltstone.object_store.opening import open_store
from siltstone.object_store.retrying import RetrySettings
from siltstone.server.settings.node import NodeSettings, load_node_settings
from support.broker.broker_history import Actor, History, Log, faults_in, producing, read_log
from support.broker.broker_process import READY, SILTSTONE, BrokerProcess
from support.engine.s3_server import S3Server
from support.faults.s3_proxy import S3Proxy, s3_proxy
from support.faults.small_disk import SmallDisk
from support.faults.victim import Victim
from support.kafka.raw_kafka import Address
from support.metrics.scraping import http_get, scrape
from support.processes.ports import free_port

TESTS = Path(__file__).parents[2]
TOPIC, PARTITIONS, WRITERS, PER_SECOND = "faults", 4, 2, 100
"""The keys of the two writers lead to two of four partitions, so most objects hold two streams. More records find no
more faults, and each costs the whole suite some time: it is a request, and it is read and checked three times."""

LOOKS_EVERY_SECONDS = 0.1
"""A look at a condition may read the metadata or list a bucket."""

BATCH_BYTES_MAX = 20_000
"""An append must fit into the small log."""

SECONDS_MAX = 60
"""The time for steps for which no time is promised."""

ENDS_WHEN_DONE = {"engine.close_time_limit_ms": "60s", "network.close_time_limit_ms": "10s"}
"""Settings of a broker without a fault: with the usual 15 s, a busy machine leaves uploads to the next start."""

ENDS_SECONDS_MAX = 90
"""The time limits of ``ENDS_WHEN_DONE`` promise 60 + 10 s; the rest is for busy cores."""

ENDS_SOON = {"engine.close_time_limit_ms": "1s", "network.close_time_limit_ms": "1s"}
"""Settings of a broker that is told to end under a fault."""

ENDS_SOON_SECONDS_MAX = 30
"""``ENDS_SOON`` promises 1 + 1 s, snapshots of partitions and progress of groups have 2 s each; the rest is for busy
cores."""

SETTINGS = {
    **ENDS_WHEN_DONE,
    "admin.listeners": "127.0.0.1:0",
    "engine.append_bytes_max": "32KiB",
    "engine.upload.cache_block_bytes_max": "64KiB",
    "engine.upload.cache_block_age_ms_max": "300ms",
    "engine.upload.block_size_bytes": "4KiB",
    "engine.wal.segment_bytes": "64KiB",
    "engine.wal.capacity_bytes": "16MiB",
    "read.block_cache_bytes_max": "64KiB",
    "read.read_ahead_bytes_min": "8KiB",
    "read.read_ahead_bytes_max": "16KiB",
    "retry.attempts_max": "3",
    "retry.backoff_ms_max": "100ms",
    "maintenance.run_ms_max": "10s",
}
UPLOADS_HELD = {"engine.upload.cache_block_bytes_max": "100MiB", "engine.upload.cache_block_age_ms_max": "1h"}
ADMIN_URL = re.compile(r"http://([^:/]+):(\d+) \(/metrics")
SEED = os.environ.pop("SILTSTONE_FAULTS_SEED", "78")
"""The seed of the draw is taken out of the environment, because brokers refuse settings that they do not know."""


class Unwanted(AssertionError):
    """The outcome is not the one that the row of the table wants."""


class Outcome(msgspec.Struct, frozen=True):
    """``status`` is None when the command ran for too long and was killed."""

    status: int | None
    text: str


class Place(msgspec.Struct, frozen=True):
    """The place where a row has its store. ``disks``: which of log, metadata and bucket are small disks.
    ``proxied``: the bucket is in S3, behind a proxy; ``in_s3``: without one. ``shifted``: the clock of the broker
    can be shifted. ``hangs``: which of log and bucket is on a disk that can be made to hang. ``holds_uploads``:
    acknowledged records stay in the log."""

    disks: tuple[str, ...] = ()
    disk_size: str = "64m"
    in_s3: bool = False
    proxied: bool = False
    shifted: bool = False
    hangs: str = ""
    header_bytes: int = 700
    holds_uploads: bool = False
    settings: dict[str, str] = {}

    @property
    def needs_s3(self) -> bool:
        return self.in_s3 or self.proxied


class Scene:
    """A scene is used in a ``with``, which ends everything. The folders ``log``, ``metadata`` and ``bucket`` are
    beside each other."""

    def __init__(self, folder: Path, place: Place, s3: S3Server | None = None) -> None:
        self.folder = folder
        self.place = place
        self.s3 = s3
        self.history = History()
        self.disks: dict[str, SmallDisk] = {}
        self.proxy: S3Proxy | None = None
        self.writers: list[Actor] = []
        self._writers_begun = 0
        self.locked: sqlite3.Connection | None = None
        self.connections: list[socket.socket] = []
        self.victim: Victim | None = None
        self._open = ExitStack()

    def __enter__(self) -> "Scene":
        with ExitStack() as opened:
            for name in self.place.disks:
                self.disks[name] = opened.enter_context(SmallDisk(self.folder / name, self.place.disk_size))
            self.bucket_url = self._bucket(opened)
            port = free_port()
            self.broker = self.broker_at(port)
            opened.callback(lambda: self.broker.stop(0.1))
            opened.callback(self._let_go)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _let_go(self) -> None:
        if self.locked is not None:
            self.locked.close()
        for each in self.connections:
            each.close()
        for each in self.writers:
            each.abandon()
        for each in self.writers:
            each.join()

    # -- what it is made of ------------------------------------------------------------------------------

    def _bucket(self, opened: ExitStack) -> str:
        """Returns the URL that does not lead through the proxy."""
        if not self.place.needs_s3:
            return (self.folder / "bucket").as_uri()
        assert self.s3 is not None
        url = self.s3.new_url()
        if self.place.proxied:
            self.proxy = opened.enter_context(s3_proxy(self.s3.endpoint_url))
        return url

    def broker_at(self, port: int, **settings: str) -> BrokerProcess:
        """Returns a broker on this store that is not started yet; ``settings`` are further settings of it."""
        program = [str(SILTSTONE)]
        if self.place.shifted:
            self.shift_clock(0)
            program = [sys.executable, "-m", "support.faults.shifted_serve", str(self._shift_file)]
        if self.place.hangs:
            folder = self.folder / self.place.hangs
            program = [sys.executable, "-m", "support.faults.hanging_serve", str(folder), str(self.hang_file)]
        return BrokerProcess(
            self.folder / "store",
            {**self._settings, **settings},
            port=port,
            program=program,
            options=self._options(through_proxy=True),
            environment=_environment(),
        )

    @property
    def _settings(self) -> dict[str, str]:
        held = UPLOADS_HELD if self.place.holds_uploads else {}
        return {**SETTINGS, **held, **self.place.settings, "wal_folder": str(self.log_folder)}

    def load_node_settings(self) -> NodeSettings:
        return load_node_settings(
            self.folder / "store",
            flags={
                **self._settings,
                "metadata": f"sqlite://{self.metadata_file}",
                "buckets.0": (self.folder / "bucket").as_uri(),
            },
        )

    def _options(self, *, through_proxy: bool) -> list[str]:
        url = self.bucket_url
        if through_proxy and self.proxy is not None and self.s3 is not None:
            url = url.replace(port_of(self.s3.endpoint_url), port_of(self.proxy.endpoint_url))
        return ["--bucket", url, "--metadata", f"sqlite://{self.metadata_file}"]

    @property
    def log_folder(self) -> Path:
        return self.folder / "log" / "node-0"

    @property
    def metadata_file(self) -> Path:
        return self.folder / "metadata" / "metadata.sqlite"

    @property
    def hang_file(self) -> Path:
        """The disk hangs while this file exists."""
        return self.folder / "hang"

    @property
    def _shift_file(self) -> Path:
        return self.folder / "clock-ahead-ms"

    def shift_clock(self, milliseconds: int) -> None:
        draft = self._shift_file.with_suffix(".draft")
        draft.write_text(str(milliseconds))
        draft.rename(self._shift_file)

    # -- the broker and its producers --------------------------------------------------------------------

    def start(self) -> None:
        """Starts the broker on the port at which the producers look for it."""
        try:
            self.broker.start()
        except AssertionError as refused:
            raise Unwanted(f"the broker does not start: {refused}") from None

    def restart_with_time_to_end(self) -> None:
        """Starts a broker that was stopped under a fault, with ``ENDS_SOON``, and may take its time when it is stopped
        again."""
        port = self.broker.address[1]
        self.broker = self.broker_at(port, **ENDS_WHEN_DONE)
        self.start()

    def begin(self) -> None:
        """Waits until records are acknowledged and some are in objects. It also makes the topic for the offsets of
        groups, so that the first consumer's wish for it is an ordinary change of the metadata."""
        self.start()
        self.create_topic()
        self.produce()
        self.assert_all_is_read()
        self.wait_for_acks(100, SECONDS_MAX, "at the beginning")
        if not self.place.holds_uploads:
            self.wait_for_objects(3, "at the beginning")

    @property
    def bootstrap(self) -> str:
        return "{}:{}".format(*self.broker.address)

    def create_topic(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(SECONDS_MAX)

    def produce(self) -> None:
        acts = [
            producing(
                self.bootstrap,
                TOPIC,
                number,
                PER_SECOND,
                header_bytes=self.place.header_bytes,
                batch_bytes_max=BATCH_BYTES_MAX,
            )
            for number in range(self._writers_begun, self._writers_begun + WRITERS)
        ]
        self._writers_begun += WRITERS  # another writer of the same number would repeat its records
        self.writers = [Actor(self.history, act) for act in acts]

    def finish_writers(self) -> None:
        for each in self.writers:
            each.finish()
        for each in self.writers:
            each.join()
        self.writers = []

    @property
    def acknowledged(self) -> int:
        return len(self.history.acknowledged)

    # -- what is wanted ----------------------------------------------------------------------------------

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise Unwanted(
                    f"{what}: not within {seconds:g} s. The broker logged: {self.broker.log[-2000:]}"
                )
            time.sleep(LOOKS_EVERY_SECONDS)

    def wait_for_acks(self, count: int, seconds: float, when: str) -> None:
        wanted = self.acknowledged + count

        def told() -> bool:
            self.assert_alive(when)
            return self.acknowledged >= wanted

        self.wait(told, seconds, f"{count} acknowledgements {when}")

    def wait_for_objects(self, count: int, when: str) -> None:
        """Waits until the bucket can be listed, which S3 refuses for a while after a start, and has this many more
        objects than it had then."""
        before: list[int] = []

        def are_there() -> bool:
            found = self.objects()
            if found is None:
                return False
            before.append(len(found))
            return len(found) >= before[0] + count

        self.wait(are_there, SECONDS_MAX, f"{count} new objects {when}")

    def wait_for_log(self, patterns: Sequence[str]) -> None:
        """Waits for one line of the log that matches all patterns."""
        self.wait(lambda: has_line(self.broker.log, patterns), 10, f"a line of the log with {patterns}")

    @property
    def admin_address(self) -> Address:
        """Returns the address that the newest start has logged."""
        host, port = ADMIN_URL.findall(self.broker.log)[-1]
        return host, int(port)

    def wait_for_readiness(self, *, is_ready: bool) -> None:
        status = 200 if is_ready else 503
        self.wait(lambda: http_get(self.admin_address, "/readyz")[0] == status, SECONDS_MAX, f"{is_ready=}")

    def wait_for_metric(self, name: str, value: float, **labels: str) -> None:
        key = name, tuple(sorted(labels.items()))
        self.wait(
            lambda: scrape(self.admin_address).get(key) == value, SECONDS_MAX, f"{name} {labels} is {value}"
        )

    def assert_alive(self, when: str) -> None:
        if not self.broker.is_alive:
            raise Unwanted(f"the broker ended {when}: {self.broker.log[-2000:]}")

    def assert_all_is_read(self, seconds: float = SECONDS_MAX) -> None:
        """Reads everything that is acknowledged by now."""
        with self.history.lock:
            told = dict(self.history.acknowledged)
        log = self._read(seconds)
        missing = [place for place, value in told.items() if log.records.get(place) != value]
        if missing:
            raise Unwanted(f"{len(missing)} of {len(told)} acknowledged records are not read: {missing[:5]}")

    def assert_newest_is_read(self) -> None:
        """Reads the record that was acknowledged last, for which no bucket is needed."""
        with self.history.lock:
            (partition, offset), value = next(reversed(self.history.acknowledged.items()))
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "newest", "log_level": 0})
        try:
            consumer.assign([TopicPartition(TOPIC, partition, offset)])
            message = consumer.poll(SECONDS_MAX / 2)
        finally:
            consumer.close()
        if message is None or message.error() is not None or message.value() != value.encode():
            said = None if message is None else message.error() or message.value()
            raise Unwanted(
                f"the newest record, {value!r} at {offset} of partition {partition}, is read as {said}"
            )

    def _read(self, seconds: float) -> Log:
        try:
            return read_log(self.bootstrap, TOPIC, PARTITIONS, seconds_max=seconds)
        except Exception as failed:
            raise Unwanted(f"reading from the beginning failed: {failed}") from failed

    def end_well(self) -> None:
        """Everything that was acknowledged is read back, in order and once; the broker ends in time, and the check
        finds nothing."""
        self.finish_writers()
        if found := faults_in(self.history, self._read(SECONDS_MAX)):
            raise Unwanted(f"{len(found)} faults in what was told: {found[:5]}")
        self.stop()
        if has_line(self.broker.log, ("Traceback|this is a bug",)):
            raise Unwanted(f"a bug was logged: {self.broker.log[-4000:]}")
        checked = self.command("check")
        if checked.status != 0:
            raise Unwanted(f"siltstone check: {checked.text}")

    def stop(self) -> None:
        """The broker ends in the promised time after one signal."""
        status = self.broker.stop(ENDS_SECONDS_MAX)
        if status != 0:
            raise Unwanted(
                f"SIGTERM: after {ENDS_SECONDS_MAX} s {status=}. It logged: {self.broker.log[-2000:]}"
            )

    # -- other commands, and the bucket ------------------------------------------------------------------

    def command(self, *words: str, seconds: float = 60) -> Outcome:
        """Runs ``siltstone`` beside the broker, on the same store."""
        pairs = [word for key, value in self._settings.items() for word in ("--set", f"{key}={value}")]
        options = ["--store", str(self.folder / "store"), *self._options(through_proxy=False), *pairs]
        return run_command([str(SILTSTONE), *words, *options], seconds)

    def serve_in_vain(self, **settings: str) -> Outcome:
        """Starts a broker that is expected to end by itself."""
        return run_command(self.broker_at(0, **settings).command, SECONDS_MAX)

    def objects(self) -> list[str] | None:
        """Returns None while S3 is away."""
        store = open_store(self.bucket_url, settings=RetrySettings(attempts_max=1))
        try:
            return [each.key for each in store.list() if "/objects/" in each.key]
        except Unavailable:
            return None
        finally:
            store.close()

    def victim_path(self) -> Path:
        assert self.victim is not None
        return self.folder / "bucket" / object_key(self.victim.object_id)

    def digests(self) -> dict[str, str]:
        """Returns the digest of every file of a bucket in a folder."""
        root = self.folder / "bucket"
        return {
            str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in root.rglob("*")
            if path.is_file()
        }

    def copy(self, folder: Path, name: str) -> None:
        """Makes a copy of one of the parts beside them. The broker must not be running."""
        shutil.copytree(folder, self.folder / name)

    def put_back(self, name: str, folder: Path) -> None:
        """Puts the copy back in the place of the part."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / name, folder)


def has_line(text: str, patterns: Sequence[str]) -> bool:
    return any(
        all(re.search(pattern, line, re.IGNORECASE) for pattern in patterns) for line in text.splitlines()
    )


def port_of(endpoint_url: str) -> str:
    return endpoint_url.rpartition(":")[2]


def run_command(command: Sequence[str], seconds: float) -> Outcome:
    """Runs a command that is killed when a broker is ready, too: then nothing was refused."""
    with TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=_environment())
        deadline = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < deadline and not READY.search(_text(output)):
            time.sleep(0.05)
        status = process.poll()
        process.kill()
        process.wait()
        return Outcome(status, _text(output).decode(errors="replace"))


def _text(output: IO[bytes]) -> bytes:
    """Returns all of the output, without moving the position at which the child writes."""
    return os.pread(output.fileno(), 1 << 20, 0)


def _environment() -> dict[str, str]:
    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
