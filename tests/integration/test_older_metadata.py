"""``siltstone serve`` with a copy of metadata.sqlite that lacks the last minute, beside its log (rule 13).

The broker is killed before anything was uploaded, so the acknowledged records are in the write-ahead log only, and no
object in the bucket tells that the metadata is older.
"""

import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker.broker_history import read_log
from support.broker.broker_process import BrokerProcess
from support.processes.cli import run

SECONDS_MAX = 60
PLACES = [False, pytest.param(True, marks=pytest.mark.nightly(tried="logs in a bucket"))]
"""Whether the log is in the bucket."""
BEFORE, AFTER = 100, 200
REFUSED = re.compile(
    r"ends with the offsets \d+ to \d+ of stream \d+, appended with version \d+ of the metadata, now at \d+"
)


def broker_in(folder: Path, *, in_bucket: bool) -> BrokerProcess:
    settings = {"engine.upload.cache_block_age_ms_max": "1h"}
    if in_bucket:
        settings["engine.wal.location"] = "bucket:0"
    return BrokerProcess(folder / "store", settings)


def produce(broker: BrokerProcess, topic: str, first: int, count: int) -> None:
    """Returns when every record is acknowledged."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    failed: list[object] = []
    for number in range(first, first + count):
        producer.produce(
            topic, f"{topic}:{number}".encode(), partition=0,
            on_delivery=lambda error, _: failed.append(error) if error is not None else None,
        )  # fmt: skip
    assert producer.flush(SECONDS_MAX) == 0
    assert failed == []


def create_topics(broker: BrokerProcess, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(topic, 1) for topic in topics]).values():
        made.result(SECONDS_MAX)


def records(topic: str, count: int) -> list[str]:
    return [f"{topic}:{number}" for number in range(count)]


def values_in(broker: BrokerProcess, topic: str) -> list[str]:
    return [value for _, value in sorted(read_log(broker.bootstrap_servers, topic, 1).records.items())]


def copy_of(metadata: Path, target: Path) -> None:
    """As docs/operations.md copies the metadata of a broker that runs."""
    with closing(sqlite3.connect(metadata)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy)


def taken_away(folder: Path, target: Path) -> Path:
    target.mkdir()
    for path in folder.glob("metadata.sqlite*"):
        path.rename(target / path.name)
    return target


def put_back(source: Path, folder: Path) -> None:
    for path in folder.glob("metadata.sqlite*"):
        path.unlink()
    for path in source.iterdir():
        shutil.copy(path, folder / path.name)


@pytest.mark.parametrize("in_bucket", PLACES)
def test_rule_13_metadata_of_a_minute_ago_is_refused_by_name_and_the_newest_copy_is_accepted(
    tmp_path: Path, in_bucket: bool
) -> None:
    broker = broker_in(tmp_path, in_bucket=in_bucket)
    metadata = broker.folder / "metadata.sqlite"
    with broker:
        create_topics(broker, "a", "b")
        produce(broker, "a", 0, BEFORE)
        assert broker.stop() == 0
        broker.start()
        copy_of(metadata, tmp_path / "older.sqlite")
        produce(broker, "a", BEFORE, AFTER)
        produce(broker, "b", 0, AFTER)
        broker.kill()
        newest = taken_away(broker.folder, tmp_path / "newest")

        shutil.copy(tmp_path / "older.sqlite", metadata)
        for _ in range(2):
            with pytest.raises(AssertionError, match="did not start"):
                broker.start()
            assert broker.exit_status(SECONDS_MAX) == 2
            refusal = broker.log.splitlines()[-1]
            assert REFUSED.search(refusal) and "Restore the newest copy" in refusal, refusal
        assert "Traceback" not in broker.log and "skipped" not in broker.log
        put_back(newest, broker.folder)
        broker.start()
        assert values_in(broker, "a") == records("a", BEFORE + AFTER)
        assert values_in(broker, "b") == records("b", AFTER)


@pytest.mark.parametrize("in_bucket", PLACES)
def test_rule_13_an_entry_that_no_record_depends_on_is_missed_too(tmp_path: Path, in_bucket: bool) -> None:
    """The partition was open before, so each record continues its stream. Only the version of the metadata, which each
    record has, tells that a configuration is missing."""
    broker = broker_in(tmp_path, in_bucket=in_bucket)
    metadata = broker.folder / "metadata.sqlite"
    with broker:
        create_topics(broker, "a")
        produce(broker, "a", 0, BEFORE)
        copy_of(metadata, tmp_path / "older.sqlite")
        address = broker.bootstrap_servers
        assert run("topics", "configure", "a", "retention.ms=7d", "-b", address).status == 0
        produce(broker, "a", BEFORE, AFTER)
        broker.kill()
        newest = taken_away(broker.folder, tmp_path / "newest")

        shutil.copy(tmp_path / "older.sqlite", metadata)
        for _ in range(3):  # a refused start registers nothing, so the copy does not catch up
            with pytest.raises(AssertionError, match="did not start"):
                broker.start()
            assert broker.exit_status(SECONDS_MAX) == 2
            refusal = broker.log.splitlines()[-1]
            assert REFUSED.search(refusal), refusal
        put_back(newest, broker.folder)
        broker.start()
        described = run("topics", "describe", "a", "--json", "-b", broker.bootstrap_servers).json
        assert described["configs"]["retention.ms"]["value"] == "604800000"
        assert values_in(broker, "a") == records("a", BEFORE + AFTER)
