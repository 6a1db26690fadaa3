"""The same commands as processes, with pipes and signals; and while the broker, or the way to it, breaks."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import Address, parse_bootstrap
from siltstone.kafka_client.consuming import Fetcher
from siltstone.kafka_client.following import Following
from siltstone.kafka_client.offsets import LATEST, offsets_at
from siltstone.kafka_client.producing.delivery import OutgoingRecord
from siltstone.kafka_client.producing.producer import Producer
from siltstone.kafka_client.topics import create_topic
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.server.embedded import Broker
from support.kafka.lossy_proxy import lossy_proxy
from support.processes.cli import run
from support.processes.started import started


def produce(bootstrap: str, topic: str, *lines: str) -> None:
    outcome = run(
        "produce",
        topic,
        "--create",
        "--bootstrap",
        bootstrap,
        stdin="".join(f"{x}\n" for x in lines).encode(),
    )
    assert outcome.status == 0, outcome


# -- tail, produce


def test_tail_follows_and_ctrl_c_ends_it_quietly(siltstone_broker: Broker, siltstone_topic: str) -> None:
    at = siltstone_broker.bootstrap_servers
    produce(at, siltstone_topic, "before")
    with started("tail", siltstone_topic, "--bootstrap", at) as process:
        assert process.stdout.readline() == b"before\n"
        produce(at, siltstone_topic, "after")
        assert process.stdout.readline() == b"after\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == 130


@pytest.mark.parametrize("last", [1, 0])
def test_a_reader_that_has_enough_ends_tail_quietly(
    siltstone_broker: Broker, siltstone_topic: str, last: int
) -> None:
    """Also when nothing more comes that could be written."""
    at = siltstone_broker.bootstrap_servers
    produce(at, siltstone_topic, "a", "b")
    with started("tail", siltstone_topic, "-n", last, "--bootstrap", at) as process:
        if last:
            assert process.stdout.readline() == b"b\n"
        process.stdout.close()
        assert process.wait(60) == 0
        assert process.stderr.read() == b""


def test_a_line_is_sent_when_it_is_there(siltstone_broker: Broker, siltstone_topic: str) -> None:
    at = siltstone_broker.bootstrap_servers
    produce(at, siltstone_topic, "first")
    following = started("tail", siltstone_topic, "--bootstrap", at)
    writing = started("produce", siltstone_topic, "--bootstrap", at, stdin=subprocess.PIPE)
    with following as reader, writing as writer:
        assert reader.stdout.readline() == b"first\n"
        for line in (b"one\n", b"two\n"):
            writer.stdin.write(line)
            writer.stdin.flush()
            assert reader.stdout.readline() == line
        out, err = writer.communicate(timeout=60)
    assert out.startswith(b"2 records to ") and err == b""


def test_ctrl_c_tells_what_was_written(siltstone_broker: Broker, siltstone_topic: str) -> None:
    at = siltstone_broker.bootstrap_servers
    produce(at, siltstone_topic, "first")
    following = started("tail", siltstone_topic, "--bootstrap", at)
    writing = started("produce", siltstone_topic, "--bootstrap", at, stdin=subprocess.PIPE)
    with following as reader, writing as writer:
        assert reader.stdout.readline() == b"first\n"
        writer.stdin.write(b"one\nhalf a line")
        writer.stdin.flush()
        assert reader.stdout.readline() == b"one\n"
        writer.send_signal(signal.SIGINT)
        told = writer.stderr.read().decode()
        known = "1 record was written before that\n"
        unknown = (
            "0 records were written before that, and perhaps 1 more\n"  # the answer was still on its way
        )
        assert told in (f"siltstone: interrupted, {known}", f"siltstone: interrupted, {unknown}")
        assert writer.wait(60) == 130


# -- a broker that goes away


@pytest.fixture
def client():
    opened: list[Cluster] = []

    def make(bootstrap: str, kind: type[Cluster] = Cluster) -> Cluster:
        opened.append(kind(parse_bootstrap(bootstrap), SystemClock(), system_randomness()))
        return opened[-1]

    yield make
    for cluster in opened:
        cluster.close()


def restarted_after(broker: Broker, seconds: float) -> threading.Timer:
    timer = threading.Timer(seconds, broker.start)
    timer.start()
    return timer


def read_all(cluster: Cluster, topic: str, count: int) -> list[int]:
    key = TopicPartition(topic, 0)
    fetcher = Fetcher(cluster, {key: 0})
    found: list[int] = []
    while fetcher.positions[key] < count:
        found += [int(bytes(record.value)) for _, record in fetcher.fetch(100)]
    return found


def test_a_broker_that_restarts_doubles_and_loses_nothing(tmp_path: Path, client) -> None:
    port = 0
    troubles: list[str] = []
    with Broker(tmp_path) as first:
        at = first.bootstrap_servers
        port = int(at.rpartition(":")[2])
        writing, following = client(at), client(at)
        create_topic(writing, "t", 1, {})
        producer = Producer(writing, "t", 1, on_trouble=troubles.append)
        for number in range(100):
            producer.add(OutgoingRecord(line=number + 1, value=b"%d" % number))
        producer.flush()
        remarks: list[str] = []
        coming = Following(following, remarks.append).records({TopicPartition("t", 0): 0})
        seen = [int(bytes(next(found for found in coming if found)[1].value)) for _ in range(100)]
    timer = restarted_after(second := Broker(tmp_path, port=port), 0.3)
    try:
        for number in range(100, 200):
            producer.add(OutgoingRecord(line=number + 1, value=b"%d" % number))
        producer.flush()
        while len(seen) < 200:
            if (found := next(coming)) is not None:
                seen.append(int(bytes(found[1].value)))
        assert read_all(client(at), "t", 200) == seen == [*range(200)]
        assert len(troubles) == len(remarks) == 1
    finally:
        timer.join()
        second.stop()


def test_answers_that_are_lost_double_nothing(siltstone_broker: Broker, siltstone_topic: str, client) -> None:
    at = siltstone_broker.bootstrap_servers
    with lossy_proxy(parse_bootstrap(at)[0]) as proxy:

        class ThroughProxy(Cluster):
            def learn(self, topics):
                told = super().learn(topics)
                self._brokers = dict.fromkeys(self._brokers, proxy.address)
                return told

        cluster = client(at, ThroughProxy)
        create_topic(cluster, siltstone_topic, 1, {})
        troubles: list[str] = []
        producer = Producer(cluster, siltstone_topic, 1, batch_bytes_max=2_000, on_trouble=troubles.append)
        proxy.answers_until_loss = 8
        for number in range(2_000):
            producer.add(OutgoingRecord(line=number + 1, value=b"%d" % number))
        producer.flush()
        assert proxy.losses == len(troubles) >= 2
    cluster = client(at)
    key = TopicPartition(siltstone_topic, 0)
    assert offsets_at(cluster, [key], LATEST)[key].offset == 2_000
    assert read_all(cluster, siltstone_topic, 2_000) == [*range(2_000)]


# -- serve


@contextmanager
def serving(store: Path, *words: object) -> Iterator[tuple[subprocess.Popen[bytes], Address]]:
    with started("serve", "--store", store, "--listener", "127.0.0.1:0", *words) as process:
        ready = process.stdout.readline().decode()
        assert ready.endswith(f" (PLAINTEXT, store {store})\n") and ready.startswith(
            "Siltstone is ready at "
        ), ready
        yield process, parse_bootstrap(ready.split()[4])[0]


def test_serve_refuses_politely_and_ends_well(tmp_path: Path) -> None:
    with serving(tmp_path / "a", "-v") as (process, address):
        produce(str(address), "t", "one")
        with started("serve", "--store", tmp_path / "b", "--listener", address) as second:
            out, err = second.communicate(timeout=60)
        assert (second.returncode, out) == (2, b"")
        assert b"another process listens there: stop it, or choose another port" in err
        assert not (tmp_path / "b").exists()
        with started("serve", "--store", tmp_path / "a", "--listener", "127.0.0.1:0") as third:
            out, err = third.communicate(timeout=60)
        assert (third.returncode, out) == (2, b"")
        assert b"is in use by another process: stop that process first" in err and err.count(b"\n") == 1
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"info     server.network.listeners  PLAINTEXT listens on" in err
    assert b"stopping: all data is uploaded and committed first; press again to exit now\n" in err
    with serving(tmp_path / "a") as (_, address):
        assert run("tail", "t", "--until-end", "--bootstrap", address).out == "one\n"
