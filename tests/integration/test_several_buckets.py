"""A broker whose store gets a second bucket, which is then out for a while, under a real producer."""

import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Message, Producer

from siltstone.metadata.image import MetadataImage
from siltstone.model.objects import ObjectKind, ObjectState
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import BrokerProcess, checked_store
from support.broker.cluster_clients import made_topic, read_all
from support.broker.cluster_processes import ClusterProcesses
from support.faults.small_disk import SmallDisk, why_not_mounted
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks
from support.processes.cli import run
from support.processes.tried import RecordTried

SOON = {"engine.upload.cache_block_age_ms_max": "50ms", "retry.backoff_ms_max": "200ms"}
SECONDS_MAX = 90
RUN = blocks(ROOT / "docs" / "buckets.md", "sh")


class Producing:
    """In a ``with``: sends numbered records to the partitions of ``t`` in turn until it ends, so that objects hold
    several streams: an object of one stream goes to its home. ``acknowledged``: partition → numbers."""

    def __init__(self, bootstrap: str, partitions: int = 2) -> None:
        made_topic(bootstrap, "t", partitions)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1}
        )
        self.acknowledged: dict[int, list[int]] = {each: [] for each in range(partitions)}
        self.refused: list[str] = []
        self._ending = Event()
        self._thread = Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._ending.is_set():
            partition = number % len(self.acknowledged)
            self._producer.produce("t", str(number).encode(), partition=partition, on_delivery=self._told)
            self._producer.poll(0.002)
            number += 1
        assert self._producer.flush(SECONDS_MAX) == 0

    def _told(self, error: object, message: Message) -> None:
        if error is None:
            self.acknowledged[message.partition()].append(int(message.value()))
        else:
            self.refused.append(str(error))

    @property
    def count(self) -> int:
        return sum(map(len, self.acknowledged.values()))

    def check_all_is_there(self, bootstrap: str) -> None:
        assert not self.refused
        for partition, numbers in self.acknowledged.items():
            assert list(read_all(bootstrap, "t", partition, len(numbers)).values()) == numbers

    def __enter__(self) -> "Producing":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()


class Place:
    """A store with one bucket, and the folder for its second one."""

    def __init__(self, folder: Path) -> None:
        self.store, self.second = folder / "store", folder / "second"

    def command(self, *words: object) -> str:
        done = run(*words, "--store", self.store)
        assert done.status == 0, done.err
        return done.words

    @contextmanager
    def image(self) -> Iterator[MetadataImage]:
        with open_store(load_node_settings(self.store, environment={})) as opened:
            yield opened.metadata.image

    def committed(self, *kinds: ObjectKind) -> Counter[int]:
        """Bucket id → objects, of these kinds if any are named."""
        with self.image() as image:
            return Counter(
                each.bucket_id
                for each in image.objects.values()
                if each.state is ObjectState.COMMITTED and (not kinds or each.kind in kinds)
            )

    @contextmanager
    def second_away(self) -> Iterator[None]:
        """Takes the second bucket away, as if its disk were not mounted any more: nothing can be written there."""
        moved = self.second.with_name("moved")
        self.second.rename(moved)
        self.second.write_text("not a folder")
        try:
            yield
        finally:
            self.second.unlink()
            moved.rename(self.second)


def owners_of(place: Place, bucket_id: int) -> set[int]:
    """Returns the nodes that own the streams of the objects in the bucket."""
    with place.image() as image:
        ranges = [each.ranges for each in image.objects.values() if each.bucket_id == bucket_id]
        return {image.streams[each.stream_id].owner for those in ranges for each in those}


def until(holds: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_b15_a_bucket_that_is_added_is_used_by_a_broker_that_writes(place: Place) -> None:
    with BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        with Producing(bootstrap) as producing:
            until(lambda: place.committed()[0], "an object in the first bucket")
            place.command("buckets", "add", place.second)
            assert not place.committed()[1], "failover: the first bucket takes writes"
            assert "round-robin" in place.command("buckets", "strategy", "round-robin")
            begun = time.monotonic()
            until(lambda: place.committed()[1] > 1, "objects in the second bucket")
            assert time.monotonic() - begun < SECONDS_MAX
            until(lambda: place.committed()[0] > 3, "objects in the first bucket, too")
        producing.check_all_is_there(bootstrap)
        assert broker.stop() == 0 and "Traceback" not in broker.log
    checked_store(place.store)


@pytest.mark.nightly(tried="buckets added")
def test_b15_three_nodes_use_a_bucket_that_is_added_at_once(place: Place) -> None:
    with ClusterProcesses(place.store, 3, SOON) as cluster:
        with Producing(cluster.bootstrap, 6) as producing:
            until(lambda: place.committed()[0] > 3, "objects in the first bucket")
            place.command("buckets", "add", place.second)
            place.command("buckets", "strategy", "round-robin")
            begun = time.monotonic()
            until(lambda: owners_of(place, 1) == {0, 1, 2}, "an object of each node in the second bucket")
            assert time.monotonic() - begun < SECONDS_MAX / 3
            place.command("maintain", "run", "--force", "--kind", "sso-compaction", "--runner", "in-process")
        producing.check_all_is_there(cluster.bootstrap)
        for node in cluster.nodes.values():
            assert node.stop() == 0 and "Traceback" not in node.log and "UnknownBucket" not in node.log
    checked_store(place.store)


def test_b19_compaction_over_three_buckets_goes_on_without_one_of_them(place: Place) -> None:
    with BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        with Producing(bootstrap):
            place.command("buckets", "add", place.second)
            place.command("buckets", "add", place.second.with_name("third"))
            place.command("buckets", "strategy", "round-robin")
            until(lambda: all(place.committed()[each] > 2 for each in range(3)), "objects in each bucket")
        assert broker.stop() == 0
    before = place.committed()
    of_sets = place.committed(ObjectKind.STREAM_SET_OBJECT)  # a slow broker uploads some of one stream
    compact = ("maintain", "run", "--kind", "sso-compaction", "--runner", "in-process", "--force", "--store")
    with place.second_away():
        done = run(*compact, place.store)
        assert done.status == 1 and "sso-compaction: 1 of 1 done" in done.words, done.out
        # The planner may leave one out that has no partner.
        unread = re.search(r"(\d+) cannot be read", done.words)
        assert unread and 0 < int(unread[1]) <= of_sets[1] and str(place.second) in done.err, done.out
        after = place.committed()
        assert after[1] == before[1] and after != before
        assert "No unit is set aside" in place.command("maintain", "status"), "the bucket is to blame"
    done = run(*compact, place.store)
    assert done.status == 0 and "cannot be read" not in done.words, done.out
    checked_store(place.store)


@pytest.mark.nightly
def test_b04_while_a_bucket_is_away_its_share_goes_to_the_other_and_it_comes_back(
    place: Place, record_tried: RecordTried
) -> None:
    """By day in virtual time: tests/unit/stream_engine/upload/test_upload_buckets.py. Here the bucket is out for half a
    minute at least."""
    with BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        with Producing(bootstrap) as producing:
            place.command("buckets", "add", place.second)
            place.command("buckets", "strategy", "round-robin")
            until(lambda: place.committed()[1], "an object in the second bucket")
            with place.second_away():
                until(lambda: "bucket 1 (" in broker.log, "a line about the bucket")
                before = producing.count, place.committed()[0]
                until(lambda: place.committed()[0] > before[1] + 5, "objects in the first bucket")
                until(lambda: producing.count > before[0] + 100, "acknowledgements")
            until(lambda: "takes writes again" in broker.log, "the return of the bucket")
            count = place.committed()[1]
            until(lambda: place.committed()[1] > count, "an object in the second bucket again")
        producing.check_all_is_there(bootstrap)
        assert broker.stop() == 0
        assert len(re.findall(r"bucket 1 \(.*\) takes no writes", broker.log)) == 1, broker.log
        assert "Traceback" not in broker.log
    checked_store(place.store)
    record_tried("buckets that went away and came back", 1)


@pytest.mark.nightly
def test_b22_a_bucket_on_a_full_disk_is_left_out_until_there_is_room(
    place: Place, record_tried: RecordTried
) -> None:
    if reason := why_not_mounted():
        pytest.skip(reason)
    with SmallDisk(place.second, "64m") as disk, BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        with Producing(bootstrap) as producing:
            place.command("buckets", "add", place.second)
            place.command("buckets", "strategy", "round-robin")
            until(lambda: place.committed()[1], "an object in the second bucket")
            disk.fill()
            until(lambda: "bucket 1 (" in broker.log, "a line about the bucket")
            before = producing.count, place.committed()[0]
            until(lambda: place.committed()[0] > before[1] + 5, "objects in the first bucket")
            until(lambda: producing.count > before[0] + 100, "acknowledgements")
            disk.empty()
            until(lambda: "takes writes again" in broker.log, "the return of the bucket")
            count = place.committed()[1]
            until(lambda: place.committed()[1] > count, "an object in the second bucket again")
        producing.check_all_is_there(bootstrap)
        assert broker.stop() == 0 and "Traceback" not in broker.log
        assert "No space left" in broker.log
        checked_store(place.store)
    record_tried("disks that were full and had room again", 1)


def test_b23_a_check_while_a_bucket_is_out_judges_the_rest_and_deletes_nothing(place: Place) -> None:
    with BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        with Producing(bootstrap):
            place.command("buckets", "add", place.second)
            place.command("buckets", "strategy", "round-robin")
            until(lambda: place.committed()[1] > 1, "objects in the second bucket")
        assert broker.stop() == 0
    (place.store / "bucket" / "of-another-program.txt").write_text("a foreign key")
    with place.second_away():
        done = run("check", "--repair", "--yes", "--json", "--store", place.store)
        assert done.status == 1 and done.json["objects_not_checked"] == place.committed()[1], done.err
        (place.store / "bucket" / "of-another-program.txt").unlink()
        done = run("check", "--store", place.store)
        assert done.status == 3 and "not everything could be checked" in done.words, done.out
        assert "bucket 1 cannot be listed" in done.words
    checked_store(place.store)


def test_b18_a_broker_whose_buckets_were_swapped_does_not_start(place: Place) -> None:
    with BrokerProcess(place.store, SOON) as broker:
        place.command("buckets", "add", place.second)
        assert broker.stop() == 0
    first = place.store / "bucket"
    first.rename(place.store / "third")
    place.second.rename(first)
    (place.store / "third").rename(place.second)
    done = run("serve", "--store", place.store, "--listener", "127.0.0.1:0")
    assert done.status == 2 and "Nothing was written" in done.err
    shutil.rmtree(place.second)


def test_b16_a_bucket_is_drained_under_a_producer_and_removed(place: Place) -> None:
    with BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        with Producing(bootstrap) as producing:
            place.command("buckets", "add", place.second)
            place.command("buckets", "strategy", "round-robin")
            until(lambda: place.committed()[1] > 2, "objects in the second bucket")
            place.command("buckets", "drain", 1)
            count = producing.count

            def relocated() -> bool:
                """Also what was prepared there before the drain, and was committed after a run had begun."""
                place.command("maintain", "run", "--kind", "relocation", "--runner", "in-process")
                return not place.committed()[1]

            until(relocated, "the second bucket is drained")
            until(lambda: producing.count > count + 100, "acknowledgements")
            refused = run("buckets", "remove", 1, "--store", place.store)
            assert refused.status == 1 and "destroyed" in refused.err, (
                "readers may still be at the old objects"
            )
            place.command("maintain", "sweep", "--grace-period", "1ms")
            place.command("buckets", "remove", 1)
            count = producing.count
            until(lambda: producing.count > count + 100, "acknowledgements")
        producing.check_all_is_there(bootstrap)
        assert not [path for path in place.second.rglob("*") if path.is_file()]
        assert broker.stop() == 0 and "Traceback" not in broker.log
    checked_store(place.store)


def copies_of(place: Place) -> dict[int, tuple[int, ...]]:
    """Object id → the buckets in which it is."""
    with place.image() as image:
        return {
            object_id: each.bucket_ids
            for object_id, each in image.objects.items()
            if each.state is ObjectState.COMMITTED
        }


def file_of(bucket: Path, object_id: int) -> Path:
    (path,) = bucket.rglob(f"objects/{object_id:020}")
    return path


def flip(path: Path, position: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[position] ^= 0xFF
    path.write_bytes(raw)


@pytest.mark.nightly(tried="lost buckets")
def test_b11_copies_are_read_repaired_and_outlive_a_bucket(place: Place) -> None:
    """Replication with two copies: one is deleted by hand, one flipped, and then the first bucket is gone for good."""
    first = place.store / "bucket"
    copy = ("maintain", "run", "--kind", "copies", "--force", "--runner", "in-process")
    with BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        with Producing(bootstrap) as producing:
            until(lambda: place.committed()[0] > 2, "objects in the first bucket alone")
            place.command("buckets", "add", place.second)
            assert "replication" in place.command("buckets", "strategy", "replication")
            until(lambda: (0, 1) in copies_of(place).values(), "an object in both")
        assert broker.stop() == 0 and "Traceback" not in broker.log
    assert "too few copies" in place.command("check")
    place.command(*copy)
    places = copies_of(place)
    assert set(places.values()) == {(0, 1)}
    gone, flipped, *_ = sorted(places)
    kept = file_of(first, flipped).read_bytes()
    file_of(first, gone).unlink()
    flip(file_of(first, flipped), 80)
    with BrokerProcess(place.store, SOON) as broker:
        producing.check_all_is_there(broker.bootstrap_servers)
        assert broker.stop() == 0 and f"object {gone} could not be read from bucket 0" in broker.log
    done = run("check", "--store", place.store)
    assert done.status == 1 and "warning missing copy 0" in done.words and "damaged copy 0" in done.words
    run("check", "--repair", "--yes", "--store", place.store)
    place.command(*copy)
    assert file_of(first, gone).read_bytes() == file_of(place.second, gone).read_bytes()
    assert file_of(first, flipped).read_bytes() == kept
    checked_store(place.store)
    shutil.rmtree(first)
    refused = run("buckets", "lost", 0, "--accept-loss", "--store", place.store)
    assert refused.status == 1 and "add another one first" in refused.err
    place.command("buckets", "add", place.second.with_name("third"))
    assert "Nothing was only in bucket 0" in place.command("buckets", "lost", 0)
    assert "is given up: 0 ranges lost" in place.command("buckets", "lost", 0, "--accept-loss")
    assert set(copies_of(place).values()) == {(1,)}
    checked_store(place.store)
    place.command(*copy)
    assert set(copies_of(place).values()) == {(1, 2)}
    with BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        producing.check_all_is_there(bootstrap)
        assert broker.stop() == 0 and "Traceback" not in broker.log


@pytest.mark.nightly
def test_what_only_a_lost_bucket_had_is_passed_over_by_consumers(
    place: Place, record_tried: RecordTried
) -> None:
    """By day without a broker: tests/unit/maintenance/copies/test_lost_bucket.py."""
    with BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        with Producing(bootstrap) as producing:
            place.command("buckets", "add", place.second)
            place.command("buckets", "strategy", "round-robin")
            until(lambda: min(place.committed()[0], place.committed()[1]) > 3, "objects in both buckets")
        assert broker.stop() == 0
    shutil.rmtree(place.second)
    shown = run("buckets", "lost", 1, "--json", "--store", place.store).json
    lost = {
        (int(each["partition"].removeprefix("t-")), offset)
        for each in shown["lost"]
        if each["is_data"]
        for offset in range(each["start_offset"], each["end_offset"])
    }
    assert lost and place.committed()[1], "nothing is changed yet"
    place.command("buckets", "lost", 1, "--accept-loss")
    checked_store(place.store)
    with BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        for partition, numbers in producing.acknowledged.items():
            left = {at: each for at, each in enumerate(numbers) if (partition, at) not in lost}
            assert read_all(bootstrap, "t", partition, len(left)) == left
        assert broker.stop() == 0 and "Traceback" not in broker.log
    checked_store(place.store)
    record_tried("buckets given up with what only they had", 1)


def test_the_commands_of_the_page_work(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "my-store") as broker:
        assert broker.stop() == 0
    commands = RUN[0]
    bare = BareEnvironment(tmp_path / "bare")
    for line in commands.splitlines():
        done = bare.run(line, tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
    assert "round-robin: new objects are spread over the buckets 0, 1" in done.stdout


def test_commands_name_the_bucket_of_what_they_show(place: Place) -> None:
    with BrokerProcess(place.store, SOON) as broker:
        bootstrap = broker.bootstrap_servers
        with Producing(bootstrap):
            place.command("buckets", "add", place.second)
            place.command("buckets", "strategy", "round-robin")
            until(lambda: min(place.committed()[0], place.committed()[1]) > 1, "objects in both buckets")
        assert broker.stop() == 0
    with place.image() as image:
        in_second = {each.object_id for each in image.objects.values() if each.bucket_id == 1}
    assert run("streams", "--store", place.store).out.split("\n")[0].split()[6:8] == ["objects", "buckets"]
    listed = run("streams", "--json", "--store", place.store).json["streams"]
    assert listed[0]["buckets"] == [0, 1]
    explained = run("maintain", "explain", "--store", place.store).words
    assert explained.startswith("kind what buckets now because") and " retention t 0,1 stays " in explained
    lost = min(in_second)
    (path,) = place.second.rglob(f"objects/{lost:020}")
    path.rename(path.with_suffix(".kept"))
    done = run("check", "--store", place.store)
    assert f"error object missing 1 object {lost} is not in its bucket" in done.words, done.out
    (found,) = [
        each
        for each in run("check", "--json", "--store", place.store).json["findings"]
        if each["object_id"] == lost
    ]
    assert (found["kind"], found["bucket_id"]) == ("OBJECT_MISSING", 1)
    shown = run("inspect", min(in_second - {lost}), "--json", "--store", place.store)
    assert shown.json["metadata"]["bucket_id"] == 1
