"""(z1) What TLS costs the broker, (z2) what rights and quotas cost it, and (z4) how much memory an idle connection with
TLS takes. The brokers are processes of their own, so that their CPU can be told from the client's.

In z1 and z2 both brokers run side by side, and rounds are in turns; of each broker the cheapest round counts, because
other work of the machine only makes a round dearer.
"""

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import msgspec
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.brokers.process_cost import cost_of
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least, at_most
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
from siltstone.model.limits import KIB
from siltstone.model.quotas import QuotaKey, entity_of
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import BrokerProcess

TLS_TITLE = "(z1) TLS beside plaintext: throughput, and CPU of the broker for each GB"
RIGHTS_TITLE = "(z2) Rights and quotas, 1,000 of each, against none"
IDLE_TITLE = "(z4) Memory of an idle connection with TLS"
ROUNDS = 4
RECORD_BYTES = 10_000
RECORDS = 40_000
SMALL_RECORD_BYTES = 200
SMALL_RECORDS = 100_000
SMALL_BATCH = {"batch.num.messages": 10}
"""So small that requests are the cost, and that their number is the same in each round."""

RULES = 1_000
CONNECTIONS = 5_000
WARM_CONNECTIONS = 100


class Round(msgspec.Struct, frozen=True):
    seconds: float
    cpu_seconds: float


@contextmanager
def broker(place: Path, *options: str, **settings: str) -> Iterator[tuple[BrokerProcess, dict[str, Any]]]:
    named = {key.replace("__", "."): value for key, value in settings.items()}
    with BrokerProcess(place / "store", named, options=options) as running:
        config: dict[str, Any] = {"bootstrap.servers": running.bootstrap_servers, "log_level": 0}
        if "--tls-self-signed" in options:
            config |= {"security.protocol": "SSL", "ssl.ca.location": str(place / "store" / "tls" / "ca.pem")}
        admin = AdminClient(config)
        admin.create_topics([NewTopic("t", 4, 1)])["t"].result(60)
        yield running, config


def _produced(running: BrokerProcess, config: dict[str, Any], count: int, size: int) -> Round:
    producer = confluent_kafka.Producer({**config, "linger.ms": 5, "queue.buffering.max.kbytes": 65_536})
    value, cpu, begun = bytes(size), cost_of(running.process_id).cpu_seconds, time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce("t", value, partition=number % 4)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(120) == 0
    return Round(time.perf_counter() - begun, cost_of(running.process_id).cpu_seconds - cpu)


def _cheapest(rounds: list[Round]) -> Round:
    return min(rounds, key=lambda each: each.cpu_seconds)


def run_tls() -> list[Row]:
    gigabytes = RECORDS * RECORD_BYTES / 1e9
    with (
        folder() as plain_place,
        folder() as tls_place,
        broker(plain_place) as plain,
        broker(tls_place, "--tls-self-signed") as tls,
    ):
        pairs = [
            (_produced(*plain, RECORDS, RECORD_BYTES), _produced(*tls, RECORDS, RECORD_BYTES))
            for _ in range(ROUNDS)
        ]
    without, with_tls = (_cheapest(list(rounds)) for rounds in zip(*pairs, strict=True))
    quickest = [min(each.seconds for each in rounds) for rounds in zip(*pairs, strict=True)]
    extra = (with_tls.cpu_seconds - without.cpu_seconds) / gigabytes
    return [
        Row("CPU that TLS adds", f"{extra:.2f} s/GB", f"plain {without.cpu_seconds / gigabytes:.2f} s/GB"),
        Row("throughput of one producer with TLS", f"{quickest[0] / quickest[1]:.2f} ×",
            f"plain {gigabytes * 1000 / quickest[0]:,.0f} MB/s"),
    ]  # fmt: skip


def run_rights() -> list[Row]:
    with (
        folder() as open_place,
        folder() as ruled_place,
        broker(open_place) as free,
        broker(ruled_place) as ruled,
    ):
        _rule(ruled_place / "store")
        pairs = [
            tuple(
                _produced(running, {**config, **SMALL_BATCH}, SMALL_RECORDS, SMALL_RECORD_BYTES)
                for running, config in (free, ruled)
            )
            for _ in range(ROUNDS)
        ]
    without, with_rules = (_cheapest(list(rounds)) for rounds in zip(*pairs, strict=True))
    return [
        at_least(
            "CPU of the broker without, as a multiple of that with",
            without.cpu_seconds / with_rules.cpu_seconds, 0.97, " ×",
            f"{without.cpu_seconds:.2f} s for {SMALL_RECORDS:,} records",
        )
    ]  # fmt: skip


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
        "network__max_connections_per_ip": str(2 * CONNECTIONS),
        "network__max_connections": str(2 * CONNECTIONS),
    }
    with folder() as place, broker(place, *options, **limits) as (running, _):
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
