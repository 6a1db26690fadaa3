"""Brokers with TLS and the clients that people have: confluent-kafka, aiokafka, kafka-python, Java's tools, ours."""

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
from aiokafka.helpers import create_ssl_context
from confluent_kafka.admin import AdminClient

import siltstone
from siltstone.kafka_client.client_settings import settings_of_mapping
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import Security, parse_bootstrap
from siltstone.kafka_client.failures import (
    BrokerGone,
    BrokerNotTrusted,
    BrokerOfAnotherName,
    BrokerWithoutTls,
)
from siltstone.kafka_client.topics import all_topics
from siltstone.kafka_protocol.messages.produce import ProducePartition, ProduceRequest, ProduceTopic
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.scanning.failures import TailNotReadable
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.broker.served_node import ServedNode
from support.kafka.kafka_requests import batch_of
from support.kafka.raw_kafka import address_of, framed, request_bytes
from support.tls.authority import Authority, Pair

pytestmark = pytest.mark.xdist_group("tls")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("broker")


@pytest.fixture(scope="module")
def broker() -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tls=True) as running:
        yield running


def trusting(file: Path, pair: Pair | None = None) -> dict[str, str]:
    config = {"security.protocol": "SSL", "ssl.ca.location": str(file)}
    if pair is not None:
        config |= {"ssl.certificate.location": str(pair.certificate), "ssl.key.location": str(pair.key)}
    return config


def consumed(config: dict[str, Any], topic: str, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {**config, "group.id": f"of-{topic}", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(values) < count and time.monotonic() < deadline:
        if (record := consumer.poll(1)) is not None and record.error() is None:
            values.append(record.value())
    consumer.close()
    return values


def cluster_of(address: str, config: dict[str, str]) -> Cluster:
    security = Security(settings_of_mapping(config, "the test"))
    return Cluster(parse_bootstrap(address), SystemClock(), system_randomness(), security)


class TlsProcess(BrokerProcess):
    """The listener is SSL; ``signal`` sends one to the process."""

    @property
    def command(self) -> list[str]:
        return [part.replace("127.0.0.1:", "SSL://127.0.0.1:") if at and part.startswith("127") else part
                for at, part in enumerate(super().command)]  # fmt: skip

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process_id, number)


# -- each client


def test_tl01_confluent_kafka(broker: siltstone.Broker) -> None:
    producer = confluent_kafka.Producer(broker.client_config())
    values = [b"%d" % number + bytes(1_000) for number in range(2_000)]
    for value in values:
        producer.produce("by-confluent", value, partition=0)
    assert producer.flush(60) == 0
    assert consumed(broker.client_config(), "by-confluent", len(values)) == values


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own
def test_tl01_kafka_python(broker: siltstone.Broker) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    options = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_cafile": broker.client_config()["ssl.ca.location"],
    }
    with KafkaProducer(**options) as producer:
        for number in range(100):
            producer.send("by-kafka-python", b"%d" % number, partition=0)
        producer.flush()
    consumer = KafkaConsumer(
        "by-kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=60_000, **options
    )
    assert [next(consumer).value for _ in range(100)] == [b"%d" % number for number in range(100)]
    consumer.close()


def test_tl01_aiokafka(broker: siltstone.Broker) -> None:
    context = create_ssl_context(cafile=broker.client_config()["ssl.ca.location"])
    options = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SSL",
        "ssl_context": context,
    }

    async def scenario() -> list[bytes]:
        async with aiokafka.AIOKafkaProducer(**options) as producer:
            for number in range(100):
                await producer.send("by-aiokafka", b"%d" % number, partition=0)
        consumer = aiokafka.AIOKafkaConsumer("by-aiokafka", auto_offset_reset="earliest", **options)
        async with consumer:
            return [(await asyncio.wait_for(anext(consumer), 60)).value for _ in range(100)]

    assert asyncio.run(scenario()) == [b"%d" % number for number in range(100)]


def test_tl01_our_own_client(broker: siltstone.Broker) -> None:
    broker.create_topic("ours", partitions=2, config={"cleanup.policy": "compact"})
    config = broker.client_config()
    producer = confluent_kafka.Producer(config)
    producer.produce("ours", b"v", b"k")
    assert producer.flush(60) == 0
    assert [record.value for record in broker.records("ours")] == [b"v"]
    with siltstone.KeyedView(broker.bootstrap_servers, "ours", client_config=config) as view:
        assert dict(view) == {b"k": b"v"}


def test_tl01_a_cluster_of_nodes_and_a_restart() -> None:
    with siltstone.Broker(tls=True, nodes=2) as broker:
        broker.create_topic("t", partitions=4)
        producer = confluent_kafka.Producer({**broker.client_config(), "log_level": 0})
        for number in range(40):
            producer.produce("t", b"%d" % number, partition=number % 4)
        assert producer.flush(60) == 0
        broker.restart()
        assert len(broker.records("t")) == 40


@pytest.mark.parametrize(("value_bytes", "count"), [(900_000, 8), (10, 3_000)])
def test_tl14_all_records_of_a_producer_that_does_not_wait_are_stored(
    broker: siltstone.Broker, value_bytes: int, count: int
) -> None:
    """acks=0: it reads nothing, and closes after its last byte."""
    topic = broker.create_topic(f"acks-0-{count}", partitions=1)
    producer = confluent_kafka.Producer(broker.client_config())
    producer.produce(topic, b"opens the partition", partition=0)
    assert producer.flush(60) == 0
    batch = batch_of(value_bytes=value_bytes, timestamp_ms=SystemClock().now_ms())
    partition = ProducePartition(index=0, records=batch)
    request = ProduceRequest(
        acks=0, timeout_ms=30_000, topics=[ProduceTopic(name=topic, partitions=[partition])]
    )
    host, port = address_of(broker.bootstrap_servers)
    context = ssl.create_default_context(cafile=broker.client_config()["ssl.ca.location"])
    with socket.create_connection((host, port)) as plain:
        client = context.wrap_socket(plain, server_hostname=host)
        client.sendall(framed(request_bytes(request, 9)) * count)
        client.close()
    deadline = time.monotonic() + 60
    while (stored := len(broker.records(topic)) - 1) < count and time.monotonic() < deadline:
        time.sleep(0.1)
    assert stored == count


# -- several listeners


def test_tl16_each_listener_advertises_itself(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    """And each client is counted and named by its listener."""
    settings = {"listener.INTERNAL.protocol": "PLAINTEXT", "listener.EXTERNAL.protocol": "SSL"}
    settings |= pair.settings("EXTERNAL") | {
        "listener.EXTERNAL.tls_client_auth": "requested",
        "listener.EXTERNAL.tls_client_ca_file": str(authority.file),
    }
    listeners = ("INTERNAL://127.0.0.1:0", "EXTERNAL://localhost:0")
    with ServedNode(tmp_path / "store", settings, listeners) as node:
        inside, outside = node.addresses[:2]
        mine = authority.issue("me")
        for (host, port), security in ((inside, {}), (outside, trusting(authority.file, mine))):
            config = {**security, "bootstrap.servers": f"{host}:{port}"}
            admin = AdminClient(config)
            (found,) = admin.list_topics(timeout=60).brokers.values()
            assert (found.host, found.port) == (host, port)
            (described,) = admin.describe_cluster().result(60).nodes
            assert described.port == port
            producer = confluent_kafka.Producer(config)
            producer.produce("t", b"x", partition=0)
            assert producer.flush(60) == 0
            assert consumed(config, "t", 1) == [b"x"], "the coordinator's address is that of the listener"
            who = node.on_loop(_clients)
            name = "INTERNAL" if port == inside[1] else "EXTERNAL"
            assert ("User:CN=broker" if name == "EXTERNAL" else "User:ANONYMOUS") in {
                each.principal for each in who if each.listener == name
            }
            del admin, producer


async def _clients(node: Any) -> Any:
    return node.listeners.clients()


def test_tl18_a_certificate_without_its_host_is_named(tmp_path: Path, authority: Authority) -> None:
    """The broker advertises a name that its certificate lacks; the other listener of the same cluster is fine."""
    good, bad = authority.issue("good"), authority.issue("bad", hosts=("broker-2.example", "10.9.9.9"))
    settings = {"listener.A.protocol": "SSL", "listener.B.protocol": "SSL"}
    settings |= good.settings("A") | bad.settings("B")
    with ServedNode(tmp_path / "store", settings, ("A://127.0.0.1:0", "B://127.0.0.1:0")) as node:
        (host, fine), (_, wrong) = node.addresses[:2]
        with cluster_of(f"{host}:{fine}", trusting(authority.file)) as cluster:
            assert all_topics(cluster) == []
        with (
            cluster_of(f"{host}:{wrong}", trusting(authority.file)) as cluster,
            pytest.raises(
                BrokerOfAnotherName,
                match=rf"the broker at 127.0.0.1:{wrong} is for broker-2.example, 10.9.9.9 and not for 127.0.0.1",
            ),
        ):
            all_topics(cluster)
        both = f"{host}:{wrong},{host}:{fine}"
        with cluster_of(both, trusting(authority.file)) as cluster:
            assert all_topics(cluster) == [], "the next address is tried"
        unchecked = {**trusting(authority.file), "ssl.endpoint.identification.algorithm": "none"}
        with cluster_of(f"{host}:{wrong}", unchecked) as cluster:
            assert all_topics(cluster) == []


def test_tl10_our_client_says_what_is_wrong(
    tmp_path: Path, broker: siltstone.Broker, authority: Authority
) -> None:
    address = broker.bootstrap_servers
    with (
        cluster_of(address, trusting(authority.file)) as cluster,
        pytest.raises(BrokerNotTrusted, match=r"is not trusted .*: set ssl\.ca\.location"),
    ):
        all_topics(cluster)
    with (
        cluster_of(address, {}) as cluster,
        pytest.raises(BrokerGone, match=r"if its listener has TLS, set security\.protocol=SSL"),
    ):
        cluster.entrance()
    with siltstone.Broker() as plain:
        config = trusting(authority.file)
        with (
            cluster_of(plain.bootstrap_servers, config) as cluster,
            pytest.raises((BrokerWithoutTls, BrokerGone), match=r"set security\.protocol=PLAINTEXT"),
        ):
            cluster.entrance()


def test_tl02_our_client_shows_its_certificate(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    settings = pair.settings() | {
        "listener.SSL.tls_client_auth": "required",
        "listener.SSL.tls_client_ca_file": str(authority.file),
    }
    locked = authority.issue("locked", password=b"secret")
    with ServedNode(tmp_path / "store", settings, ("SSL://127.0.0.1:0",)) as node:
        ((host, port), *_) = node.addresses
        config = {**trusting(authority.file, locked), "ssl.key.password": "secret"}
        with cluster_of(f"{host}:{port}", config) as cluster:
            assert all_topics(cluster) == []
        with (
            cluster_of(f"{host}:{port}", trusting(authority.file)) as cluster,
            pytest.raises(BrokerGone, match="if it wants a certificate of its clients"),
        ):
            cluster.entrance()


# -- the program


def lines_of(broker: BrokerProcess) -> dict[str, str]:
    """Returns the three settings that ``serve --tls-self-signed`` prints when it is ready."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        printed = dict(re.findall(r"^  (\S+)=(.*)\n", broker.log, re.MULTILINE)[-3:])
        if len(printed) == 3 and printed["bootstrap.servers"] == broker.bootstrap_servers:
            return printed
        time.sleep(0.02)
    raise AssertionError(broker.log)


@pytest.mark.nightly(tried="clients with TLS")
@pytest.mark.kafka
def test_tl21_lines_that_are_printed_are_all_that_clients_need(tmp_path: Path) -> None:
    from oracles.java_artifacts import JavaArtifactsUnavailable
    from oracles.java_tools import KafkaTools

    folder = tmp_path / "store"
    with BrokerProcess(folder, options=("--tls-self-signed",)) as broker:
        config = lines_of(broker)
        assert list(config) == ["bootstrap.servers", "security.protocol", "ssl.ca.location"]
        producer = confluent_kafka.Producer(config)
        producer.produce("t", b"x")
        assert producer.flush(60) == 0
        client_file = folder / "tls" / "client.properties"
        command = [str(SILTSTONE), "topics", "--bootstrap", broker.bootstrap_servers, "--json"]
        shown = subprocess.run(
            [*command, "--client-config", str(client_file)], capture_output=True, text=True, check=True
        )
        assert "t" in shown.stdout and json.loads(shown.stdout)
        certificate = (folder / "tls" / "broker.pem").read_bytes()
        assert (folder / "tls" / "broker-key.pem").stat().st_mode & 0o777 == 0o600
        try:
            tools = KafkaTools(broker.bootstrap_servers)
        except JavaArtifactsUnavailable:
            tools = None
        if tools is not None:
            java = tmp_path / "java.properties"
            java.write_text(
                f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={config['ssl.ca.location']}\n"
            )
            listed = tools.run("kafka-topics", "--list", "--command-config", str(java))
            assert (listed.status, listed.output.split()) == (0, ["t"]), listed.errors
    with BrokerProcess(folder, options=("--tls-self-signed",)) as broker:
        assert (folder / "tls" / "broker.pem").read_bytes() == certificate
        assert consumed(lines_of(broker), "t", 1) == [b"x"]


def test_tl05_new_files_while_a_producer_works(tmp_path: Path, authority: Authority) -> None:
    """SIGHUP: the producer loses nothing, a new connection gets the new certificate, wrong files change nothing."""
    pair = authority.issue("renewed")

    def serial(port: int) -> str:
        return ssl.get_server_certificate(("127.0.0.1", port), ca_certs=str(authority.file), timeout=60)

    with TlsProcess(tmp_path / "store", pair.settings()) as broker:
        config = {**trusting(authority.file), "bootstrap.servers": broker.bootstrap_servers}
        producer = confluent_kafka.Producer(config)
        before, sent = serial(broker.address[1]), 0
        authority.issue("renewed")
        broker.signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while serial(broker.address[1]) == before and time.monotonic() < deadline:
            producer.produce("t", b"%d" % sent, partition=0)
            producer.poll(0.01)
            sent += 1
        assert serial(broker.address[1]) != before
        authority.issue("foreign").key.replace(pair.key)
        broker.signal(signal.SIGHUP)
        while "keeps the certificate that it has" not in broker.log and time.monotonic() < deadline:
            producer.produce("t", b"%d" % sent, partition=0)
            producer.poll(0.01)
            sent += 1
        assert producer.flush(60) == 0
        assert consumed(config, "t", sent) == [b"%d" % number for number in range(sent)]


def test_tl15_sigterm_ends_the_process_in_time(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    with TlsProcess(tmp_path / "store", pair.settings()) as broker:
        code = (
            "import socket, ssl, sys, time\n"
            "context = ssl.create_default_context(cafile=sys.argv[2])\n"
            "peers = [context.wrap_socket(socket.create_connection(('127.0.0.1', int(sys.argv[1]))), "
            "server_hostname='localhost') for _ in range(100)]\n"
            "print('connected', flush=True)\n"
            "time.sleep(600)\n"
        )
        command = [sys.executable, "-c", code, str(broker.address[1]), str(authority.file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as peers:
            assert peers.stdout is not None and peers.stdout.readline() == "connected\n"
            began = time.monotonic()
            broker.stop()
            assert time.monotonic() - began <= 12
            peers.kill()


def test_metrics_and_health_over_tls(tmp_path: Path, authority: Authority, pair: Pair) -> None:
    settings = (
        pair.settings("ADMIN")
        | pair.settings()
        | {
            "admin.listeners": "0.0.0.0:0",
            "listener.ADMIN.protocol": "SSL",
            "listener.ADMIN.tls_client_auth": "required",
            "listener.ADMIN.tls_client_ca_file": str(authority.file),
        }
    )
    mine = authority.issue("prometheus")
    with TlsProcess(tmp_path / "store", settings) as broker:
        deadline = time.monotonic() + 60
        while "metrics and health" not in broker.log and time.monotonic() < deadline:
            time.sleep(0.05)
        url = re.search(r"https://[^:]+:(\d+)", broker.log)
        assert url is not None, broker.log
        base = f"https://localhost:{url[1]}"
        with urllib.request.urlopen(
            f"{base}/metrics", context=authority.client_context(mine), timeout=60
        ) as answer:
            text = answer.read().decode()
        assert 'siltstone_tls_certificate_expiry_seconds{listener="SSL"}' in text
        assert 'siltstone_connections{listener="SSL"} 0' in text
        client_file = tmp_path / "client.properties"
        client_file.write_text("".join(f"{k}={v}\n" for k, v in trusting(authority.file, mine).items()))
        command = [str(SILTSTONE), "clients", "--admin", base, "--client-config", str(client_file)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True)
        assert shown.stdout == "No client is connected.\n"
        with pytest.raises(OSError):
            urllib.request.urlopen(f"{base}/livez", context=authority.client_context(), timeout=60)


def test_a_topic_partition_is_found_over_tls(broker: siltstone.Broker) -> None:
    broker.create_topic("leaders", partitions=1)
    with cluster_of(broker.bootstrap_servers, broker.client_config()) as cluster:
        assert cluster.leader_of(TopicPartition("leaders", 0)) == 0


# -- one listener for the nodes among themselves


@pytest.mark.nightly(tried="scans over TLS")
def test_scans_read_the_tail_over_the_listener_that_the_store_names(
    tmp_path: Path, authority: Authority, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"listener.INTERNAL.protocol": "PLAINTEXT", "listener.EXTERNAL.protocol": "SSL"}
    settings |= pair.settings("EXTERNAL")
    listeners = ("INTERNAL://127.0.0.1:0", "EXTERNAL://127.0.0.1:0")
    store = tmp_path / "store"
    with ServedNode(store, settings, listeners) as node:
        producer = confluent_kafka.Producer({"bootstrap.servers": ":".join(map(str, node.addresses[0]))})
        producer.produce("t", b"in the tail")
        assert producer.flush(60) == 0
        assert siltstone.scan("t", store=store).to_arrow().num_rows == 1, "over INTERNAL"
        command = [str(SILTSTONE), "nodes", "listener", "EXTERNAL", "--store", str(store)]
        subprocess.run(command, check=True, capture_output=True)
        with pytest.raises(TailNotReadable, match="SILTSTONE_CLIENT_CONFIG"):
            siltstone.scan("t", store=store)
        client_file = tmp_path / "client.properties"
        client_file.write_text(f"security.protocol=SSL\nssl.ca.location={authority.file}\n")
        monkeypatch.setenv("SILTSTONE_CLIENT_CONFIG", str(client_file))
        assert siltstone.scan("t", store=store).to_arrow().num_rows == 1
    with BrokerProcessRefused(store) as said:
        assert "node 0 has no listener EXTERNAL, by which the nodes of this store are reached" in said


class BrokerProcessRefused:
    """A node with a plaintext listener alone does not start; the ``with`` has its error."""

    def __init__(self, store: Path) -> None:
        self.command = [str(SILTSTONE), "serve", "--store", str(store), "--listener", "127.0.0.1:0"]

    def __enter__(self) -> str:
        done = subprocess.run(self.command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    def __exit__(self, *_: object) -> None: ...


@pytest.mark.parametrize("nodes", [(), ("--nodes", "2")])
def test_tl17_a_start_that_is_refused_names_setting_and_file_and_binds_no_port(
    tmp_path: Path, authority: Authority, nodes: tuple[str, ...]
) -> None:
    files = authority.issue("wrong")
    authority.issue("another").key.replace(files.key)
    settings = [f"--set={key}={value}" for key, value in files.settings().items()]
    command = [str(SILTSTONE), "serve", "--store", str(tmp_path / "store"), "--listener", "SSL://127.0.0.1:0"]
    done = subprocess.run(
        [*command, *nodes, *settings], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "listener.SSL.tls_key_file: " in done.stderr and "is not the key of" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "store").exists()
