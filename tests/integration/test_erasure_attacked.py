"""Erasure where something is in its way: the command is killed at every step, the records are in logs of nodes that do
not own them any more, in objects that nobody uses, or their topic is deleted meanwhile.

The search over the bytes of all files decides, not the report; where the report says ``complete``, the search must find
nothing.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

import siltstone
from siltstone.metadata.commands import FinishJob, PrepareObjects, PutKey, StartJob
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import object_key
from siltstone.server.embedded import Broker
from support.broker.erased_store import (
    FAST,
    KEY,
    OTHER,
    VALUE,
    Killed,
    Steps,
    assert_gone,
    consumed,
    holders,
    produce,
    store_of,
)
from support.maintenance.compacted_store import maintained, split_and_compact
from support.metadata.postgres_server import PostgresServer
from support.processes.cli import run

VALUES = tuple(VALUE.format(key=KEY, number=number) for number in range(9))
STEPS_MAX = 100


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "store", settings=FAST) as made:
        yield made


def filled(broker: Broker, topic: str = "orders", **config: str) -> None:
    """Six records of the key: half of them in an object, half in the log alone."""
    broker.create_topic(topic, partitions=1, config=config or None)
    produce(broker, topic, range(3))
    broker.flush()
    produce(broker, topic, range(3, 6))


def erased(tmp_path: Path, topic: str = "orders", **settings: str) -> Any:
    done = run("erase", topic, "--key", KEY, "--yes", "--wait", "--json", *store_of(tmp_path, **settings))
    assert done.status == 0, done
    assert done.json["state"] == "complete"
    return done.json


def test_er8_the_log_that_a_broker_has_left(tmp_path: Path) -> None:
    with Broker(tmp_path / "store", settings=FAST) as broker:
        filled(broker)
    erased(tmp_path)
    assert holders(tmp_path, KEY, *VALUES) == []
    with Broker(tmp_path / "store", settings=FAST) as broker:
        consumed(broker, "orders", 6 * 19)


def test_er8_the_log_of_a_node_that_led_the_partition_before(tmp_path: Path) -> None:
    with Broker(tmp_path / "store", nodes=2, settings=FAST) as broker:
        filled(broker)
        (leader,) = [
            number
            for number in (0, 1)
            if any(path.suffix == ".wal" and KEY.encode() in path.read_bytes()
                   for path in (tmp_path / "store" / "wal" / f"node-{number}").iterdir())
        ]  # fmt: skip
        assert run("nodes", "drain", leader, "--store", tmp_path / "store").status == 0
        produce(broker, "orders", range(6, 7))
        assert any(f"node-{leader}" in name for name in holders(tmp_path, KEY))
        erased(tmp_path)
        assert_gone(tmp_path, KEY, *VALUES)


@pytest.mark.parametrize("is_after", [False, True], ids=["before the step", "after the step"])
def test_er9_killed_at_every_step(is_after: bool, broker: Broker, tmp_path: Path) -> None:
    """The newest records are in the log only, and the step between the request and the flush is one of them."""
    store = store_of(tmp_path)
    for last in itertools.count(1):
        assert last < STEPS_MAX
        topic = f"orders-{last}"
        filled(broker, topic)
        is_killed = False
        with pytest.MonkeyPatch.context() as patched:
            Steps(patched, last, is_after=is_after)
            try:
                done = run("erase", topic, "--key", KEY, "--yes", *store)
            except Killed:
                is_killed = True
        if not is_killed:
            assert done.status == 0, done
            break
        left = [
            each for each in run("erasures", "--json", *store[:2]).json["erasures"] if each["topic"] == topic
        ]
        if not left:
            assert run("erase", topic, "--key", KEY, "--yes", *store).status == 0
        for each in left:
            done = run("erasures", "resume", each["erasure"], *store)
            assert done.status == 0, done
    for each in run("erasures", "--json", *store[:2]).json["erasures"]:
        assert run("erasures", "resume", each["erasure"], "--wait", *store).status == 0
    assert holders(tmp_path, KEY, *VALUES) == []
    assert last > 10
    for number in range(1, last + 1):
        consumed(broker, f"orders-{number}", 6 * 19)


def test_er10_what_compaction_wrote_and_never_committed(broker: Broker, tmp_path: Path) -> None:
    """A driver died after its upload. Its object is in the bucket until its time limit has passed, and the report does
    not say ``complete`` before it is gone."""
    filled(broker)
    with maintained(tmp_path / "store") as context:
        job_id = context.metadata.execute(StartJob("so-compaction", "a test", 60_000))
        first_id = context.metadata.execute(PrepareObjects(2, HOUR_MS, job_id=job_id))
        (used,) = [each for each in context.metadata.image.objects.values() if each.ranges]
        data = context.buckets.store(0).get_range(object_key(used.object_id), 0, used.size_bytes)
        context.buckets.store(0).put(object_key(first_id), [data])
        context.metadata.execute(FinishJob(job_id, False))
    done = run("erase", "orders", "--key", KEY, "--yes", "--json", *store_of(tmp_path))
    assert done.status == 0, done
    erasure = done.json["erasure"]
    sweep = ("maintain", "run", "--kind", "sweep", *store_of(tmp_path))
    assert run(*sweep).status == 0
    report = ("erasures", "report", erasure, "--json", "--store", tmp_path / "store")
    assert [each["deleted"] is None for each in run(*report).json["objects"]].count(True) == 0
    assert (run(*report).json["state"], run(*report).json["leftovers"]) == ("verified", 1)
    assert holders(tmp_path, KEY), "as the report says"
    with maintained(tmp_path / "store") as context:
        context.buckets.store(0).delete([object_key(first_id)])
    assert run(*report).json["state"] == "complete"
    assert holders(tmp_path, KEY, *VALUES) == []


def test_er10_what_sinks_have_staged(broker: Broker, tmp_path: Path) -> None:
    filled(broker)
    with maintained(tmp_path / "store") as context:
        context.metadata.execute(PutKey("spark-sink/one", b"", overwrite=True))
        context.buckets.store(0).put("staging/one/1/0-part", [VALUES[0].encode()])
    done = run("erase", "orders", "--key", KEY, "--yes", "--json", *store_of(tmp_path))
    assert run("maintain", "run", "--kind", "sweep", *store_of(tmp_path)).status == 0
    report = ("erasures", "report", done.json["erasure"], "--json", "--store", tmp_path / "store")
    assert (run(*report).json["state"], run(*report).json["leftovers"]) == ("verified", 1)
    with maintained(tmp_path / "store") as context:
        context.buckets.store(0).delete(["staging/one/1/0-part"])
    assert run(*report).json["state"] == "complete"


def test_er11_a_topic_that_is_deleted_meanwhile_is_said_so(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(broker)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Killed):
        Steps(patched, 5, is_after=True)
        run("erase", "orders", "--key", KEY, "--yes", *store_of(tmp_path))
    assert run("topics", "delete", "orders", "--yes", "-b", broker.bootstrap_servers).status == 0
    filled(broker)
    (erasure,) = run("erasures", "--json", "--store", tmp_path / "store").json["erasures"]
    assert erasure["state"] == "topic deleted"
    done = run("erasures", "resume", erasure["erasure"], *store_of(tmp_path))
    assert done.status == 1
    assert "topic orders was deleted: its records leave the buckets with its objects" in done.err
    consumed(broker, "orders", 6 * 20)  # a new topic of the same name
    assert run("erasures", "forget", erasure["erasure"], "--yes", "--store", tmp_path / "store").status == 0


def test_er11_a_topic_without_records(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("orders", partitions=2)
    assert erased(tmp_path)["records_looked_at"] == 0


def test_er12_keys_that_are_empty_or_of_a_mebibyte(broker: Broker, tmp_path: Path) -> None:
    large = KEY.encode() * (2**20 // len(KEY))
    broker.create_topic("orders", partitions=1, config={"max.message.bytes": "4000000"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 8 * 2**20})
    for key in (b"", large, large[:-1], None, b"other"):
        producer.produce("orders", b"a value", key=key)
    assert producer.flush(60) == 0
    (tmp_path / "keys").write_bytes(large)
    done = run("erase", "orders", "--key", "", "--keys-from", tmp_path / "keys", "--yes", *store_of(tmp_path))
    assert done.status == 0, done
    left = siltstone.scan("orders", store=tmp_path / "store").to_arrow()
    assert left["offset"].to_pylist() == [2, 3, 4]


def test_er12_a_compacted_topic_with_tombstones(broker: Broker, tmp_path: Path) -> None:
    filled(broker, **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("orders", None, key=KEY.encode())
    assert producer.flush(60) == 0
    broker.flush()
    split_and_compact(tmp_path / "store")
    before = siltstone.scan("orders", store=tmp_path / "store", lease="0").to_arrow().num_rows
    erased(tmp_path)
    assert holders(tmp_path, KEY, *VALUES) == []
    assert siltstone.scan("orders", store=tmp_path / "store", lease="0").to_arrow().num_rows == before - 1
    split_and_compact(tmp_path / "store", hours_ahead=48)
    assert run("check", "--store", tmp_path / "store").status == 0


def test_er12_transactions_that_are_open_or_aborted(broker: Broker, tmp_path: Path) -> None:
    filled(broker)
    ends = []
    for name in ("aborted", "open"):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
        producer.init_transactions(60)
        producer.begin_transaction()
        for key in (KEY, OTHER):
            producer.produce("orders", VALUE.format(key=key, number=6).encode(), key=key.encode())
        assert producer.flush(60) == 0
        ends.append(producer)
    ends[0].abort_transaction(60)
    erased(tmp_path)
    assert holders(tmp_path, KEY) == []
    ends[1].commit_transaction(60)
    found = consumed(broker, "orders", 6 * 19 + 1)
    assert found[-1][1] == OTHER.encode()


@pytest.mark.postgres
@pytest.mark.xdist_group("postgres")
def test_er13_metadata_in_postgresql(tmp_path: Path, postgres_server: PostgresServer) -> None:
    url = postgres_server.url(postgres_server.new_schema())
    with Broker(tmp_path / "store", settings={**FAST, "metadata": url}) as broker:
        filled(broker)
        erased(tmp_path, metadata=url)
        assert holders(tmp_path, KEY, *VALUES) == []
        consumed(broker, "orders", 6 * 19)


def test_er14_two_erasures_of_one_topic_at_once(broker: Broker, tmp_path: Path) -> None:
    filled(broker)
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Killed):
        Steps(patched, 5, is_after=True)
        run("erase", "orders", "--key", "user-00003-of-the-test", "--yes", *store_of(tmp_path))
    erased(tmp_path)
    reports = run("erasures", "--json", "--store", tmp_path / "store").json["erasures"]
    assert {each["state"] for each in reports} <= {"verified", "complete"}, "one look serves both"
    assert holders(tmp_path, KEY, "user-00003-of-the-test") == []
    consumed(broker, "orders", 6 * 18)
