"""Erasure end to end: a byte search over everything that a store has on its disk finds neither key nor value after the
grace period, and a store that is restored from an older backup has the records no more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import siltstone
from siltstone.server.embedded import Broker
from support.broker.broker_process import BrokerProcess
from support.broker.erased_store import (
    FAST,
    IN_PROCESS,
    KEY,
    OTHER,
    VALUE,
    assert_gone,
    consumed,
    holders,
    produce,
    store_of,
)
from support.processes.cli import run


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "store", settings=FAST) as made:
        yield made


def test_er1_no_file_of_the_store_has_key_or_value_after_the_grace_period(
    broker: Broker, tmp_path: Path
) -> None:
    broker.create_topic("orders", partitions=1)
    produce(broker, "orders", range(3))
    broker.flush()
    produce(broker, "orders", range(3, 6))
    before = holders(tmp_path, KEY)
    assert any(name.endswith(".wal") for name in before), "the newest records are in the log alone"
    assert any("objects" in name for name in before)

    done = run("erase", "orders", "--key", KEY, "--yes", "--wait", *store_of(tmp_path))
    assert done.status == 0, done
    assert "complete" in done.out

    assert holders(tmp_path, KEY, *(VALUE.format(key=KEY, number=number) for number in range(6))) == []
    assert holders(tmp_path, OTHER), "the search finds what is there"
    found = consumed(broker, "orders", 6 * 19)
    assert KEY.encode() not in {key for _, key in found}
    assert found[-1][0] == 6 * 20 - 1, "offsets do not change"
    assert run("check", "--store", tmp_path / "store").status == 0


def test_er2_a_store_restored_from_an_older_backup_has_them_no_more(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders", partitions=1)
    produce(broker, "orders", range(3))
    broker.flush()
    objects = (tmp_path / "backups").as_uri()
    store = ("--store", tmp_path / "store")
    assert run("backup", tmp_path / "b", "--objects", objects, *store).status == 0
    assert run("erase", "orders", "--key", KEY, "--yes", *store_of(tmp_path)).status == 0

    new = ("--store", tmp_path / "new", "--set", "sweep.grace_period_ms=1")
    done = run("restore", tmp_path / "b", *new, *IN_PROCESS)
    assert done.status == 0, done
    assert "of orders was applied again: 3 records" in done.out
    (erasure,) = run("erasures", "--json", *new).json["erasures"]
    assert run("erasures", "resume", erasure["erasure"], "--wait", *new, *IN_PROCESS).status == 0
    assert holders(tmp_path / "new", KEY) == []
    rows = siltstone.scan("orders", store=tmp_path / "new").to_arrow()
    assert rows.num_rows == 3 * 19


@pytest.mark.parametrize("knows", ["a newer backup", "the bucket of the backups"])
def test_er3_a_restore_without_the_original_learns_of_it(knows: str, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders", partitions=1)
    produce(broker, "orders", range(1))
    broker.flush()
    objects = ("--objects", (tmp_path / "backups").as_uri())
    store = ("--store", tmp_path / "store")
    assert run("backup", tmp_path / "older", *objects, *store).status == 0
    assert run("erase", "orders", "--key", KEY, "--yes", *store_of(tmp_path)).status == 0
    is_named = knows == "a newer backup"
    assert run("backup", tmp_path / "newer", *(() if is_named else objects), *store).status == 0
    broker.stop()
    (tmp_path / "store").rename(tmp_path / "gone")

    new = ("--store", tmp_path / "new")
    named = ("--erasures-from", tmp_path / "newer") if is_named else ()
    done = run("restore", tmp_path / "older", *named, *new, *IN_PROCESS)
    assert done.status == 0, done
    assert siltstone.scan("orders", store=tmp_path / "new").to_arrow().num_rows == 19


def test_er4_a_dry_run_shows_the_objects_and_changes_nothing(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders", partitions=1)
    produce(broker, "orders", range(2))
    broker.flush()
    done = run("erase", "orders", "--key", KEY, "--dry-run", "--json", *store_of(tmp_path))
    assert done.status == 0, done
    assert done.json["records"] == 2
    assert [each["records"] for each in done.json["objects"]] == [2]
    assert run("erasures", "--store", tmp_path / "store").out.strip() == "Nothing was erased by key."
    consumed(broker, "orders", 40)


@pytest.mark.parametrize(
    ("nodes", "settings"),
    [
        pytest.param(3, {}, id="three nodes"),
        pytest.param(
            1,
            {"engine.wal.location": "bucket:0"},
            id="the log in a bucket",
            marks=pytest.mark.nightly(tried="logs in buckets"),
        ),
    ],
)
def test_er5_wherever_the_logs_are(nodes: int, settings: dict[str, str], tmp_path: Path) -> None:
    with Broker(tmp_path / "store", nodes=nodes, settings={**FAST, **settings}) as broker:
        broker.create_topic("orders", partitions=6)
        produce(broker, "orders", range(1))
        broker.flush()
        produce(broker, "orders", range(1, 3))
        done = run("erase", "orders", "--key", KEY, "--yes", "--wait", *store_of(tmp_path, **settings))
        assert done.status == 0, done
        assert_gone(tmp_path, KEY, *(VALUE.format(key=KEY, number=number) for number in range(3)))
        assert siltstone.scan("orders", store=tmp_path / "store").to_arrow().num_rows == 3 * 19


def test_er6_copies_in_every_bucket_are_deleted(tmp_path: Path) -> None:
    with Broker(tmp_path / "store", settings=FAST) as broker:
        assert (
            run("buckets", "add", (tmp_path / "second").as_uri(), "--store", tmp_path / "store").status == 0
        )
        assert run("buckets", "strategy", "replication", "--store", tmp_path / "store").status == 0
        broker.create_topic("orders", partitions=1)
        produce(broker, "orders", range(2))
        broker.flush()
        before = holders(tmp_path, KEY)
        assert any(name.startswith("second/") for name in before), before
        done = run("erase", "orders", "--key", KEY, "--yes", "--wait", "--json", *store_of(tmp_path))
        assert done.status == 0, done
        assert {tuple(each["buckets"]) for each in done.json["objects"]} == {(0, 1)}
        assert_gone(tmp_path, KEY)


def test_er7_records_that_only_the_log_of_a_dead_node_has_keep_it_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("siltstone.scanning.flushing.FLUSH_MS_MAX", 500)
    server = BrokerProcess(tmp_path / "store")
    server.start()
    sent = b"".join(f"user-{user:05}-of-the-test,x\n".encode() for user in range(20))
    assert (
        run("produce", "orders", "--create", "-b", server.bootstrap_servers, "-K", ",", stdin=sent).status
        == 0
    )
    server.kill()
    done = run("erase", "orders", "--key", KEY, "--yes", *store_of(tmp_path))
    assert done.status != 0
    assert "start the node again if it has died" in done.err, done
    assert run("erasures", "--store", tmp_path / "store").out == "Nothing was erased by key.\n"
