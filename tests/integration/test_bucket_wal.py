"""``siltstone serve`` with its write-ahead log in the bucket: the disk is lost, the bucket is out for a while.

The metadata must be elsewhere than on the lost disk; here they are in a folder of their own.
"""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from siltstone.object_formats.wal_object import WAL_PREFIX
from support.broker.broker_history import Actor, History, faults_in, producing, read_log
from support.broker.broker_process import BrokerProcess
from support.engine.s3_server import S3Server, running_s3_server
from support.processes.ports import free_port
from support.processes.tried import RecordTried

TOPIC, PARTITIONS, WRITERS, PER_SECOND = "kept", 3, 2, 200
SECONDS_MAX = 60
IN_BUCKET = {"engine.wal.location": "bucket:0", "engine.upload.cache_block_age_ms_max": "1h"}
"""Nothing is uploaded before the process is killed: what is acknowledged is in the log only."""


class Machine:
    """A node whose folder can be lost; metadata and bucket are elsewhere."""

    def __init__(self, folder: Path, bucket: str, settings: dict[str, str] | None = None) -> None:
        self.store = folder / "disk" / "store"
        self.store.parent.mkdir()
        (folder / "metadata").mkdir()
        options = ["--bucket", bucket, "--metadata", f"sqlite://{folder}/metadata/metadata.sqlite"]
        port = free_port()
        self.broker = BrokerProcess(self.store, {**IN_BUCKET, **(settings or {})}, port=port, options=options)
        self.history = History()
        self._actors: list[Actor] = []

    def __enter__(self) -> "Machine":
        self.broker.start()
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        (made,) = admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values()
        made.result(SECONDS_MAX)
        for writer in range(WRITERS):
            self._actors.append(Actor(self.history, producing(self.bootstrap, TOPIC, writer, PER_SECOND)))

    def __exit__(self, *_: object) -> None:
        for actor in self._actors:
            actor.abandon()
        for actor in self._actors:
            actor.join()
        self.broker.stop()

    @property
    def bootstrap(self) -> str:
        return "{}:{}".format(*self.broker.address)

    def until_more_is_acknowledged(self, count: int = 100) -> None:
        wanted = len(self.history.acknowledged) + count
        wait_until(lambda: len(self.history.acknowledged) >= wanted)

    def lose_disk(self) -> None:
        """All that is on it; a node with its log in the bucket may have written nothing there."""
        self.broker.kill()
        shutil.rmtree(self.store, ignore_errors=True)
        assert not self.store.exists()

    def faults(self) -> list[str]:
        for actor in self._actors:
            actor.finish()
        for actor in self._actors:
            actor.join()
        return faults_in(self.history, read_log(self.bootstrap, TOPIC, PARTITIONS))


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def bucket_keys(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]


def test_a_node_survives_the_loss_of_its_disk(tmp_path: Path) -> None:
    bucket = tmp_path / "bucket"
    with Machine(tmp_path, bucket.as_uri()) as machine:
        for _ in range(2):
            machine.until_more_is_acknowledged()
            machine.lose_disk()
            machine.broker.start()
        machine.until_more_is_acknowledged()
        assert machine.faults() == []
        assert not machine.store.exists() or not list(machine.store.rglob("*.wal"))
        assert any(key.startswith(WAL_PREFIX) for key in bucket_keys(bucket))


@pytest.mark.s3
@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.xdist_group("s3-page")
def test_on_a_real_s3_server_too(tmp_path: Path, s3_server: S3Server, record_tried: RecordTried) -> None:
    with Machine(tmp_path, s3_server.new_url()) as machine:
        for _ in range(3):
            record_tried("lost disks", 1)
            machine.until_more_is_acknowledged()
            machine.lose_disk()
            machine.broker.start()
        assert machine.faults() == []


@pytest.mark.s3
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_w15_the_s3_server_is_killed_and_started_again_under_it(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """Appends wait meanwhile, which the log says; nothing is lost, and the engine does not stop."""
    with running_s3_server() as server, Machine(tmp_path, server.new_url()) as machine:
        machine.until_more_is_acknowledged()
        record_tried("kills of the server", 1)
        server.kill()
        wait_until(lambda: "appends wait: the bucket of the write-ahead log" in machine.broker.log)
        acknowledged = len(machine.history.acknowledged)
        server.start()
        wait_until(lambda: len(machine.history.acknowledged) > acknowledged + 50)
        assert "is written again" in machine.broker.log
        assert machine.faults() == []
        assert "Traceback" not in machine.broker.log
