"""(y, ys) Groups beside Apache Kafka, every broker in turn on an empty folder: how long a rebalance takes, what the
heartbeats of many members cost, and what a share group reads.

A rebalance takes as long as the members' heartbeats are apart, so (y) takes seconds each time however fast a broker is:
one member after the other joins, at moments that are spread over the interval, and the median counts. An fsync plays no
part in that, so Kafka takes part once.

``python -m benchmarks.group_members --members 6 --partitions 12 --brokers Siltstone`` runs a small part of it.
"""

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from rich.console import Console

from benchmarks.brokers.client import STALL_SECONDS
from benchmarks.brokers.contenders import KAFKA_DEFAULT, KAFKA_FLUSHED, SILTSTONE, Contender
from benchmarks.brokers.measuring import Figure
from benchmarks.brokers.process_cost import cost_of
from benchmarks.kafka import Rounds, takes_part
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least, at_most, show
from oracles.broker_process import BrokerProcess
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import parse_bootstrap
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    OwnedPartitions,
)
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness

TITLE = "(y) consumer groups: a rebalance, and heartbeats"
SHARE_TITLE = "(ys) a share group"
CONTENDERS = (SILTSTONE, KAFKA_FLUSHED, KAFKA_DEFAULT)
CONTENDERS_OF_GROUPS = (SILTSTONE, KAFKA_FLUSHED)
REBALANCE_OF_KAFKA, HEARTBEATS_CORE_MAX, RECORDS_OF_KAFKA = 0.5, 0.03, 1.0
QUIET = {"log_level": 0}
VALUE = b"x" * 1_000
GROUPS_OF_BEATS = 20
"""The members that only send heartbeats are of so many groups."""
TURNS_TO_SETTLE = 5
"""After so many heartbeats of each member all have given back what they had to, and have what they are to have."""
INTERVAL_SECONDS = {"classic": 1.0, "consumer": 5.0}
"""How far apart heartbeats are: in the classic protocol as the client is configured, in the new one as Kafka says."""


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    members: int = 50
    partitions: int = 500
    beating: int = 1_000
    beating_seconds: float = 15.0
    joining: int = 5
    sharing: int = 20
    share_records: int = 200_000
    rounds: int = 3
    """Those of (ys); (y) has one."""


def run() -> list[Row]:
    return group_rows(CONTENDERS_OF_GROUPS, Sizes())


def run_shares() -> list[Row]:
    return share_rows(CONTENDERS, Sizes())


def group_rows(contenders: Iterable[Contender], sizes: Sizes) -> list[Row]:
    found = _rounds(contenders, 1, lambda broker: _groups(broker, sizes))
    aims = {"s": REBALANCE_OF_KAFKA}
    rows = []
    for number, figure in enumerate(next(iter(found.values()))[0]):
        text, against, ratio = _against(found, number)
        if figure.unit == "core":
            mine = statistics.median(each[number].value for each in next(iter(found.values())))
            rows.append(at_most(figure.measure, mine, HEARTBEATS_CORE_MAX, " core", against))
        elif ratio is not None:
            rows.append(at_most(figure.measure, ratio, aims[figure.unit], " ×", f"{text}; {against}"))
        else:
            rows.append(Row(figure.measure, text, against))
    return rows


def share_rows(contenders: Iterable[Contender], sizes: Sizes) -> list[Row]:
    found = _rounds(contenders, sizes.rounds, lambda broker: _shares(broker, sizes))
    rows = []
    for number, figure in enumerate(next(iter(found.values()))[0]):
        text, against, ratio = _against(found, number)
        if ratio is not None and figure.unit == "/s":
            rows.append(at_least(figure.measure, ratio, RECORDS_OF_KAFKA, " ×", f"{text}; {against}"))
        else:
            rows.append(Row(figure.measure, text, against))
    return rows


# -- consumer groups -------------------------------------------------------------------------------------


def _groups(broker: BrokerProcess, sizes: Sizes) -> list[Figure]:
    _made(broker, "many", sizes.partitions)
    figures = [
        Figure(
            f"{sizes.members} members, {sizes.partitions} partitions, {protocol}: until one more has its part",
            "s",
            _rebalanced(broker, protocol, sizes),
        )
        for protocol in ("classic", "consumer")
    ]
    cost = _heartbeats(broker, sizes)
    return [*figures, Figure(f"heartbeats of {sizes.beating:,} members: CPU of the broker", "core", cost)]


class Polled:
    """Members in one thread, polled in turn."""

    def __init__(self) -> None:
        self.consumers: list[Consumer] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def is_whole(self, count: int, partitions: int) -> bool:
        assigned = [len(each.assignment()) for each in list(self.consumers)]
        return len(assigned) == count and sum(assigned) == partitions and min(assigned) > 0

    def end(self) -> None:
        self._ends.set()
        self._thread.join()
        for consumer in self.consumers:
            consumer.close()

    def _poll(self) -> None:
        while not self._ends.wait(0.001):
            for consumer in list(self.consumers):
                consumer.poll(0)


def _rebalanced(broker: BrokerProcess, protocol: str, sizes: Sizes) -> float:
    """Returns the seconds from the start of one more member until each has its part: the median of several."""
    config = {
        "bootstrap.servers": broker.bootstrap_servers, "group.id": f"y-{protocol}", "group.protocol": protocol,
        "auto.offset.reset": "latest", **QUIET,
    }  # fmt: skip
    if protocol == "classic":
        config |= {"heartbeat.interval.ms": 1_000, "partition.assignment.strategy": "cooperative-sticky"}
    polled = Polled()
    try:
        for _ in range(sizes.members):
            _join(polled, config)
        _until(lambda: polled.is_whole(sizes.members, sizes.partitions), "the group before")
        took: list[float] = []
        for number in range(sizes.joining):
            time.sleep(INTERVAL_SECONDS[protocol] * (number + 0.5) / sizes.joining)
            began, count = time.monotonic(), sizes.members + 1 + number
            _join(polled, config)
            _until(lambda count=count: polled.is_whole(count, sizes.partitions), f"{count} members")
            took.append(time.monotonic() - began)
        return statistics.median(took)
    finally:
        polled.end()


def _join(polled: Polled, config: dict[str, object]) -> None:
    consumer = Consumer(config)
    consumer.subscribe(["many"])
    polled.consumers.append(consumer)


def _heartbeats(broker: BrokerProcess, sizes: Sizes) -> float:
    """Returns the cores that the broker takes for the heartbeats, at the interval that it tells the members."""
    with Cluster(parse_bootstrap(broker.bootstrap_servers), SystemClock(), system_randomness()) as cluster:
        epochs: dict[int, int] = {}
        news: dict[int, list[OwnedPartitions]] = {}

        def beat(number: int) -> float:
            """Returns after how many seconds the next one is due. What a member was given it has, and says so once."""
            joins = number not in epochs
            said = {
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": ["many"],
                "topic_partitions": [],
            }
            owned = news.pop(number, None)
            request = ConsumerGroupHeartbeatRequest(
                group_id=f"beats-{number % GROUPS_OF_BEATS}",
                member_id=f"m{number}",
                member_epoch=epochs.get(number, 0),
                **(said if joins else {"topic_partitions": owned}),  # type: ignore[arg-type]
            )
            answer = cluster.patiently(lambda: _asked(cluster, request.group_id, request))
            if answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH:
                epochs.pop(number)
            else:
                epochs[number] = answer.member_epoch
            if answer.assignment is not None:
                news[number] = [
                    OwnedPartitions(topic_id=each.topic_id, partitions=each.partitions)
                    for each in answer.assignment.topic_partitions
                ]
            return answer.heartbeat_interval_ms / 1_000 or 5.0

        for _ in range(TURNS_TO_SETTLE):
            for number in range(sizes.beating):
                interval = beat(number)
        before, began = cost_of(broker.pid).cpu_seconds, time.monotonic()
        while time.monotonic() - began < sizes.beating_seconds:
            turn = time.monotonic()
            for number in range(sizes.beating):
                beat(number)
                time.sleep(max(0.0, turn + interval * (number + 1) / sizes.beating - time.monotonic()))
        return (cost_of(broker.pid).cpu_seconds - before) / (time.monotonic() - began)


def _asked(
    cluster: Cluster, group: str, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    (node_id,) = cluster.coordinators_of([group])
    return cluster.broker(node_id).call(request, ConsumerGroupHeartbeatResponse)


# -- a share group ---------------------------------------------------------------------------------------


def _shares(broker: BrokerProcess, sizes: Sizes) -> list[Figure]:
    admin = _made(broker, "shared", 8)
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, "ys", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(STALL_SECONDS)
    _fill(broker, sizes.share_records)
    left = [sizes.share_records]
    took_ms: list[float] = []
    lock = threading.Lock()
    before, began = cost_of(broker.pid).cpu_seconds, time.monotonic()
    members = [
        threading.Thread(target=_share, args=(broker, left, took_ms, lock)) for _ in range(sizes.sharing)
    ]
    for member in members:
        member.start()
    for member in members:
        member.join(10 * STALL_SECONDS)
    seconds = time.monotonic() - began
    spread = statistics.quantiles(took_ms, n=100)
    cpu_s = (cost_of(broker.pid).cpu_seconds - before) * 1e6 / sizes.share_records
    who = f"{sizes.sharing} consumers"
    return [
        Figure(f"{who}: records of 1 kB", "/s", sizes.share_records / seconds),
        Figure(f"{who}: an acknowledgement, p50", "ms", spread[49]),
        Figure(f"{who}: an acknowledgement, p99", "ms", spread[98]),
        Figure(f"{who}: CPU of the broker for a million records", "s", cpu_s),
    ]


def _share(broker: BrokerProcess, left: list[int], took_ms: list[float], lock: threading.Lock) -> None:
    consumer = ShareConsumer({
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "ys",
        "share.acknowledgement.mode": "explicit", **QUIET,
    })  # fmt: skip
    consumer.subscribe(["shared"])
    try:
        while left[0] > 0:
            taken = consumer.poll(0.5)
            for message in taken:
                consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            if taken:
                began = time.monotonic()
                consumer.commit_sync(STALL_SECONDS)
                with lock:
                    took_ms.append((time.monotonic() - began) * 1000)
                    left[0] -= len(taken)
    finally:
        consumer.close()


def _fill(broker: BrokerProcess, records: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, **QUIET})
    for _ in range(records):
        producer.produce("shared", VALUE)
        while len(producer) > 50_000:
            producer.poll(0.01)
    assert producer.flush(STALL_SECONDS) == 0


# -- both ------------------------------------------------------------------------------------------------


def _made(broker: BrokerProcess, topic: str, partitions: int) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(STALL_SECONDS)
    return admin


def _until(look: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + 3 * STALL_SECONDS
    while not look():
        if time.monotonic() > give_up:
            raise TimeoutError(f"{what}: not in {3 * STALL_SECONDS} s")
        time.sleep(0.005)


def _rounds(
    contenders: Iterable[Contender], rounds: int, measure: Callable[[BrokerProcess], list[Figure]]
) -> Rounds:
    taking_part = [each for each in contenders if takes_part(each)]
    found: Rounds = {each.name: [] for each in taking_part}
    for _ in range(rounds):
        for contender in taking_part:
            with folder() as place, contender.prepared(Path(place)).started() as broker:
                found[contender.name].append(measure(broker))
    return found


def _against(found: Rounds, number: int) -> tuple[str, str, float | None]:
    """Returns the median of the first broker, those of the others, and the ratio to the one with an fsync."""
    texts, values = [], {}
    for name, figures in found.items():
        values[name] = statistics.median(each[number].value for each in figures)
        texts.append(f"{name} {values[name]:,.2f} {figures[0][number].unit}")
    first, theirs = next(iter(values)), values.get(KAFKA_FLUSHED.name)
    ratio = values[first] / theirs if theirs and first != KAFKA_FLUSHED.name else None
    return texts[0], "; ".join(texts[1:]), ratio


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--brokers", nargs="*", default=[each.name for each in CONTENDERS])
    parser.add_argument("--only", choices=["y", "ys"], nargs="*", default=["y", "ys"])
    for name in Sizes.__struct_fields__:
        default = getattr(Sizes(), name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    given = parser.parse_args(arguments)
    sizes = Sizes(**{name: getattr(given, name) for name in Sizes.__struct_fields__})
    if "y" in given.only:
        taking = [each for each in CONTENDERS_OF_GROUPS if each.name in given.brokers]
        show(TITLE, group_rows(taking, sizes), Console())
    if "ys" in given.only:
        taking = [each for each in CONTENDERS if each.name in given.brokers]
        show(SHARE_TITLE, share_rows(taking, sizes), Console())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
