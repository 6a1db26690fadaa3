"""OP01: backups of a store under load, with a broker that is killed and maintenance that replaces objects; a store is
restored at drawn points, beside the original.

Each restored store has the records that were committed by its point, byte for byte, and nothing later; ``check`` finds
nothing wrong, and no file of the original has changed. The values say where they belong, so what was written to the
original later, or to another partition, would be seen.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random, SystemRandom
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.backups.manifest import METADATA_FILE
from siltstone.backups.restoring import read_manifest
from siltstone.maintenance.checking.check import check
from siltstone.metadata.image import MetadataImage
from siltstone.offline.opening.store import Store
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.kafka.quiet_client import QUIET
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.crash, pytest.mark.xdist_group("restored points"), pytest.mark.timeout(900)]

TOPICS = {"flights": 2, "planes": 1}
SETTINGS = {"engine.upload.cache_block_age_ms_max": "200ms"}
GROUP = "readers"
QUICK_POINTS, NIGHTLY_POINTS = 3, 20


def run(*arguments: str) -> str:
    done = subprocess.run([SILTSTONE, *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


class Load:
    """Produces numbered values until it is stopped; an unacknowledged one may be there or not."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **QUIET})
        self._stop = Event()
        self._thread = Thread(target=self._produce)

    def _produce(self) -> None:
        number = 0
        while not self._stop.is_set():
            for topic, partitions in TOPICS.items():
                for partition in range(partitions):
                    self._producer.produce(
                        topic, f"{topic}-{partition} {number}", str(number % 50), partition
                    )
            number += 1
            self._producer.poll(0)
            if number % 10 == 0:
                self._stop.wait(0.01)
        self._producer.flush(5)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **QUIET})
    consumer.commit(offsets=[TopicPartition("flights", 0, offset)], asynchronous=False)
    consumer.close()


def committed(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **QUIET})
    (found,) = consumer.committed([TopicPartition("flights", 0)], timeout=60)
    consumer.close()
    return int(found.offset)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the store ``store``, the backup ``backup`` of a moment under load, and its objects."""
    folder = tmp_path_factory.mktemp("restored")
    store = folder / "store"
    with BrokerProcess(store, SETTINGS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        for made in admin.create_topics([NewTopic(*each) for each in TOPICS.items()]).values():
            made.result(60)
        for life in range(3):
            with Load(broker.bootstrap_servers):
                time.sleep(1.5)
                commit(broker.bootstrap_servers, 10 * (life + 1))
                run("maintain", "run", "--runner", "in-process", "--store", str(store))
                time.sleep(0.5)
                if life < 2:
                    broker.kill()
            if life < 2:
                broker.start()
        with Load(broker.bootstrap_servers):
            time.sleep(0.5)
            run(
                "backup",
                str(folder / "backup"),
                "--store",
                str(store),
                "--objects",
                (folder / "objects").as_uri(),
            )
            time.sleep(0.5)
    yield folder


def records(store: Path | Store, topic: str) -> dict[int, list[tuple[int, bytes]]]:
    """By partition: offset and value of each record that is in objects."""
    rows = siltstone.scan(
        topic, store=store, columns=["partition", "offset", "value"], tail="committed", lease="0"
    )
    found: dict[int, list[tuple[int, bytes]]] = {}
    for row in rows.to_arrow().to_pylist():
        found.setdefault(row["partition"], []).append((row["offset"], row["value"]))
    return found


def ends(image: MetadataImage, topic: str) -> list[int]:
    there = image.topics.get(image.topic_ids.get(topic, ""))
    return (
        [] if there is None else [image.streams[each.data_stream_id].end_offset for each in there.partitions]
    )


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (folder / "store").rglob("*/objects/*")}


def check_point(folder: Path, version: int, name: str) -> int:
    """Restores the version, and compares every topic with the original. Returns how many records were compared."""
    place = folder / name
    shown = run("restore", str(folder / "backup"), "--at-version", str(version), "--store", str(place))
    assert f"was restored from version {version}" in shown
    then = siltstone.metadata(folder / "store", version=version).moment.image
    compared = 0
    with siltstone.open_store(place) as store:
        assert check(store.context).findings == ()
        assert set(store.metadata.image.topic_ids) == set(then.topic_ids)
        for topic in set(TOPICS) & set(then.topic_ids):
            original, restored = records(folder / "store", topic), records(place, topic)
            for partition, end in enumerate(ends(then, topic)):
                wanted = [each for each in original.get(partition, []) if each[0] < end]
                assert restored.get(partition, []) == wanted, (topic, partition)
                assert all(value.startswith(f"{topic}-{partition} ".encode()) for _, value in wanted)
                compared += len(wanted)
    return compared


@pytest.mark.parametrize("drawn", [False, True])
def test_op01_a_restored_store_has_what_was_committed_by_its_point(lived: Path, drawn: bool) -> None:
    newest = read_manifest(lived / "backup").version
    before, rng = files(lived), Random(7)
    points = [rng.randint(1, newest) for _ in range(QUICK_POINTS)] if drawn else [newest]
    compared = [
        check_point(lived, version, f"point-{number}-{drawn}") for number, version in enumerate(points)
    ]
    assert sum(compared) > 100
    assert files(lived) == before


def test_op01_groups_go_on_and_both_stores_live_beside_each_other(lived: Path) -> None:
    """The original is started again, too: neither broker writes to what the other has."""
    place = lived / "beside"
    run("restore", str(lived / "backup"), "--store", str(place))
    before = files(lived)
    with BrokerProcess(place, SETTINGS) as restored, BrokerProcess(lived / "store", SETTINGS) as original:
        assert committed(restored.bootstrap_servers) == committed(original.bootstrap_servers) == 30
        with Load(restored.bootstrap_servers):
            time.sleep(1)
    assert files(lived).items() >= before.items()
    for folder in (place, lived / "store"):
        assert "clean" in run("check", "--store", str(folder))
    with siltstone.open_store(place) as one, siltstone.open_store(lived / "store") as other:
        ids = [each.metadata.image.keys["store/id"] for each in (one, other)]
        assert ids[0] != ids[1]


def test_op02_older_metadata_beside_the_log_and_bucket_of_the_store_is_refused(
    lived: Path, tmp_path: Path
) -> None:
    """The copy of a backup is put in the place of the metadata by hand: the start is refused, nothing changes."""
    before = files(lived)
    kept = tmp_path / METADATA_FILE
    there = lived / "store" / METADATA_FILE
    there.rename(kept)
    try:
        there.write_bytes((lived / "backup" / METADATA_FILE).read_bytes())
        done = subprocess.run(
            [SILTSTONE, "serve", "--store", str(lived / "store"), "--listener", "127.0.0.1:0"],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 2 and "older" in done.stderr, done
        assert files(lived) == before
    finally:
        for path in (lived / "store").glob(f"{METADATA_FILE}*"):
            path.unlink()
        kept.rename(there)


@pytest.mark.nightly(tried="points")
def test_op01_many_drawn_points(lived: Path, record_tried: RecordTried) -> None:
    newest, before = read_manifest(lived / "backup").version, files(lived)
    for number in range(NIGHTLY_POINTS):
        version = SystemRandom().randint(0, newest)
        print(f"version {version}")
        check_point(lived, version, f"night-{number}")
        record_tried("points", 1)
    assert files(lived) == before
