"""(z1) What TLS costs the broker, (z2) what rights and quotas cost it, and (z4) how much memory an idle connection with
TLS takes. The brokers are processes of their own, so that their CPU can be told from the client's.

In z1 and z2 both brokers run side by side, and rounds are in turns. In z1 the cheapest round of each broker counts,
because other work of the machine only makes a round dearer; Apache Kafka follows, one process with both listeners. In
z2, where a hundredth counts, it is the median of many short pairs: what disturbs one round disturbs the next.
"""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import confluent_kafka
import msgspec
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.brokers.process_cost import cost_of
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least, at_most
from oracles.apache_kafka import KAFKA_JVM, prepare_apache_kafka, started
from oracles.broker_process import HOST, free_ports
from oracles.java_artifacts import JavaArtifactsUnavailable
from siltstone.metadata.acls import CreateAcls, SetAuthorization
from siltstone.metadata.quotas import AlterQuotas, QuotaChange
from siltstone.model.acls import (
    AclBinding,
    AclOperation,
    AclResourceType,
    AuthorizationMode,
    PatternType,
    Permission,
)
from siltstone.model.limits import GIB, KIB
from siltstone.model.quotas import QuotaKey, entity_of
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import BrokerProcess
from support.tls.authority import Authority

TLS_TITLE = "(z1) TLS beside plaintext: throughput, and CPU of the broker for each GB"
RIGHTS_TITLE = "(z2) Rights and quotas, 1,000 of each, against none"
IDLE_TITLE = "(z4) Memory of an idle connection with TLS"
ROUNDS = 8
WARMING = 2
RECORD_BYTES = 10_000
RECORDS = 40_000
SMALL_RECORD_BYTES = 200
SMALL_RECORDS = 50_000
SMALL_BATCH = {"batch.num.messages": 10}
"""So small that requests are the cost, and that their number is the same in each round."""

RULES_ROUNDS = 14

RULES = 1_000
CONNECTIONS = 5_000
WARM_CONNECTIONS = 100


Client = tuple[int, dict[str, Any]]
"""The process of a broker, and the settings of its client."""


class Round(msgspec.Struct, frozen=True):
    seconds: float
    cpu_seconds: float


@contextmanager
def broker(place: Path, *options: str, **settings: str) -> Iterator["Client"]:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    with BrokerProcess(place / "store", named, options=options) as running:
        config: dict[str, Any] = {"bootstrap.servers": running.bootstrap_servers, "log_level": 0}
        if "--tls-self-signed" in options:
            config |= {"security.protocol": "SSL", "ssl.ca.location": str(place / "store" / "tls" / "ca.pem")}
        admin = AdminClient(config)
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(60)
        yield running.process_id, config


def _produced(pid: int, config: dict[str, Any], count: int, size: int) -> Round:
    producer = confluent_kafka.Producer({**config, "linger.ms": 5, "queue.buffering.max.kbytes": 65_536})
    value, cpu, begun = bytes(size), cost_of(pid).cpu_seconds, time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce("t", value, partition=number % 4)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(120) == 0
    return Round(time.perf_counter() - begun, cost_of(pid).cpu_seconds - cpu)


def _cheapest(rounds: list[Round]) -> Round:
    return min(rounds, key=lambda each: each.cpu_seconds)


class TlsCost(msgspec.Struct, frozen=True):
    """The cheapest round of one broker without TLS, what TLS adds to the CPU of a round, and the shortest times."""

    plain: Round
    extra_seconds: float
    plain_seconds: float
    tls_seconds: float


def _tls_cost(plain: Client, tls: Client) -> TlsCost:
    """Takes rounds in turns. The first ones warm a JVM up. Rounds of a JVM differ by more than TLS costs, so what it
    adds is the median of the pairs, not the difference of the cheapest."""
    pairs = [
        (_produced(*plain, RECORDS, RECORD_BYTES), _produced(*tls, RECORDS, RECORD_BYTES))
        for _ in range(ROUNDS)
    ]
    extra = median(with_tls.cpu_seconds - without.cpu_seconds for without, with_tls in pairs[WARMING:])
    quickest = [min(each.seconds for each in rounds) for rounds in zip(*pairs, strict=True)]
    return TlsCost(_cheapest([without for without, _ in pairs]), extra, *quickest)


def _ours() -> TlsCost:
    with (
        folder() as plain_place,
        folder() as tls_place,
        broker(plain_place) as plain,
        broker(tls_place, "--tls-self-signed") as tls,
    ):
        return _tls_cost(plain, tls)


def _apache_kafka() -> TlsCost:
    """One process with a listener of each kind, with the heap and the options of Kafka's own script, without an fsync.
    Its TLS is Java's."""
    with folder() as place:
        pair = Authority(place / "authority").issue("broker")
        both = place / "authority" / "both.pem"
        both.write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
        (port,) = free_ports(1)
        settings = {
            "ssl.keystore.type": "PEM", "ssl.keystore.location": str(both),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
        }  # fmt: skip
        prepared = prepare_apache_kafka(place, settings, GIB, KAFKA_JVM, (f"SSL://{HOST}:{port}",))
        with started(prepared) as running:
            plain: dict[str, Any] = {"bootstrap.servers": running.bootstrap_servers, "log_level": 0}
            authority = str(place / "authority" / "authority-a.pem")
            tls = {
                "bootstrap.servers": f"{HOST}:{port}", "log_level": 0, "security.protocol": "SSL",
                "ssl.ca.location": authority,
            }  # fmt: skip
            admin = AdminClient(plain)
            admin.create_topics([NewTopic("t", 4, 1)])["t"].result(60)
            return _tls_cost((running.pid, plain), (running.pid, tls))


def run_tls() -> list[Row]:
    gigabytes = RECORDS * RECORD_BYTES / 1e9
    ours = _ours()
    rows = [
        Row("CPU that TLS adds", f"{ours.extra_seconds / gigabytes:.2f} s/GB",
            f"plain {ours.plain.cpu_seconds / gigabytes:.2f} s/GB"),
        Row("throughput of one producer with TLS", f"{ours.plain_seconds / ours.tls_seconds:.2f} ×",
            f"plain {gigabytes * 1000 / ours.plain_seconds:,.0f} MB/s"),
    ]  # fmt: skip
    try:
        theirs = _apache_kafka()
    except JavaArtifactsUnavailable as reason:
        return [*rows, Row("… beside Apache Kafka", "not run", str(reason))]
    return [
        *rows,
        at_most(
            "CPU that TLS adds, as a multiple of what it adds to Apache Kafka",
            ours.extra_seconds / theirs.extra_seconds, 0.7, " ×",
            f"Kafka {theirs.extra_seconds / gigabytes:.2f} s/GB, plain {theirs.plain.cpu_seconds / gigabytes:.2f}, "
            f"with TLS {theirs.plain_seconds / theirs.tls_seconds:.2f} × of "
            f"{gigabytes * 1000 / theirs.plain_seconds:,.0f} MB/s",
        ),
    ]  # fmt: skip


def run_rights() -> list[Row]:
    with (
        folder() as open_place,
        folder() as ruled_place,
        broker(open_place) as free,
        broker(ruled_place) as ruled,
    ):
        _rule(ruled_place / "store")
        pairs = [_pair(free, ruled, swapped=bool(number % 2)) for number in range(1 + RULES_ROUNDS)]
    counted = pairs[1:]
    return [
        at_least(
            "CPU of the broker without, as a multiple of that with",
            median(without / with_rules for without, with_rules in counted), 0.97, " ×",
            f"{median(without for without, _ in counted):.2f} s for {SMALL_RECORDS:,} records",
        )
    ]  # fmt: skip


def _pair(free: Client, ruled: Client, *, swapped: bool) -> tuple[float, float]:
    """Returns the CPU seconds of a round of each; ``swapped``: the second one goes first."""
    took = {
        pid: _produced(pid, {**config, **SMALL_BATCH}, SMALL_RECORDS, SMALL_RECORD_BYTES).cpu_seconds
        for pid, config in ((ruled, free) if swapped else (free, ruled))
    }
    return took[free[0]], took[ruled[0]]


def _rule(place: Path) -> None:
    """ACLs of 1,000 users, of which one is the client's; quotas of 1,000 users, and one that the client never
    reaches."""
    with open_store(load_node_settings(place, environment={})) as store:
        names = ["User:ANONYMOUS", *(f"User:user-{number}" for number in range(RULES - 1))]
        bindings = tuple(
            AclBinding(
                AclResourceType.TOPIC, PatternType.LITERAL, "t", name, "*", AclOperation.ALL, Permission.ALLOW
            )
            for name in names
        )
        store.metadata.execute(CreateAcls(bindings))
        limit = ((QuotaKey.PRODUCER_BYTE_RATE, 1e12),)
        users = [entity_of(user=name.removeprefix("User:")) for name in names]
        store.metadata.execute(AlterQuotas(tuple(QuotaChange(each, limit) for each in users)))
        store.metadata.execute(SetAuthorization(AuthorizationMode.ON, added=("User:root",)))


def run_idle() -> list[Row]:
    options = ("--tls-self-signed",)
    limits = {
        "network.max_connections_per_ip": str(2 * CONNECTIONS),
        "network.max_connections": str(2 * CONNECTIONS),
    }
    with folder() as place, BrokerProcess(place / "store", limits, options=options) as running:
        context = ssl.create_default_context(cafile=str(place / "store" / "tls" / "ca.pem"))
        opened: list[ssl.SSLSocket] = []

        def open_more(count: int) -> int:
            for _ in range(count):
                plain = socket.create_connection(running.address, timeout=60)
                opened.append(context.wrap_socket(plain, server_hostname=running.address[0]))
            return running.resident_bytes

        before = open_more(WARM_CONNECTIONS)
        after = open_more(CONNECTIONS)
        for each in opened:
            each.close()
    return [at_most("memory of each of 5,000 connections", (after - before) / CONNECTIONS / KIB, 40, " KiB")]
