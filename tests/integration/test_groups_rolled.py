"""Consumers of librdkafka and Java, restarted one after the other with the other protocol while a producer writes: from
classic to KIP-848 and back (NG18, NG19). No partition has two owners, no committed offset goes back, and each record is
read."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from oracles.java_clients import running_java_clients
from support.broker.broker_process import BrokerProcess, checked_store
from support.broker.cluster_clients import until
from support.groups.group_load import GROUP, PARTITIONS, SECONDS, TOPIC, Load
from support.groups.reading_members import QUIET, JavaReadingMember, Member, ReadingMember, owned_twice
from support.kafka.kafka_oracles import or_skip
from support.processes.tried import RecordTried

Start = Callable[[str, str | None], Member]
pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka"), pytest.mark.timeout(600)]


def rolled(start: Start, strategy: str) -> list[Member]:
    """Three classic members; each is replaced by a new one, and then back. Returns all, and has ended all."""
    alive = [start(f"c{number}", strategy) for number in range(3)]
    everybody = list(alive)
    time.sleep(5)
    for name, protocol in (("n", None), ("b", strategy)):
        for number in range(3):
            alive.pop(0).end()
            alive.append(start(f"{name}{number}", protocol))
            everybody.append(alive[-1])
            until(lambda: alive[-1].owned, f"partitions of {alive[-1].name}", SECONDS)
            time.sleep(2)
    until(lambda: sum(len(each.owned) for each in alive) == PARTITIONS, "all partitions", SECONDS)
    for member in alive:
        member.end()
    return everybody


def roll(
    tmp_path: Path, strategy: str, starting: Callable[[BrokerProcess], Start], record: RecordTried
) -> None:
    with BrokerProcess(tmp_path / "store") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(SECONDS)
        start, load = starting(broker), Load(broker.bootstrap_servers)
        with load.running():
            everybody = rolled(start, strategy)
        last = start("last", None)

        def missing() -> set[Any]:
            return load.everything - {each for member in [*everybody, last] for each in member.records}

        until(
            lambda: not missing(),
            lambda: (
                f"all records but {len(missing())}, such as {sorted(missing())[:3]}; the last member has "
                f"{sorted(last.owned)} and has read {len(last.records)}"
            ),
            5 * SECONDS,  # a member commits each record, which takes it long on a busy machine
        )
        last.end()
        load.look()
        assert owned_twice(everybody) == []
        assert load.went_back == []
        assert "Traceback" not in broker.log
        assert load.kinds[:3] == ["CLASSIC", "CONSUMER", "CLASSIC"]
        record("members", len(everybody))
        record("records", load.produced)
    checked_store(tmp_path / "store")


@pytest.mark.nightly(tried="members rolled")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_ng18_ng19_members_of_librdkafka_are_rolled(
    tmp_path: Path, strategy: str, record_tried: RecordTried
) -> None:
    def starting(broker: BrokerProcess) -> Start:
        return lambda name, classic: ReadingMember(broker.bootstrap_servers, TOPIC, GROUP, name, classic)

    roll(tmp_path, strategy, starting, record_tried)


@pytest.mark.nightly(tried="members rolled")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_ng18_ng19_members_of_two_clients_are_rolled(
    tmp_path: Path, strategy: str, record_tried: RecordTried
) -> None:
    def starting(broker: BrokerProcess) -> Start:
        def start(name: str, classic: str | None) -> Member:
            if name[-1] == "1":
                return ReadingMember(broker.bootstrap_servers, TOPIC, GROUP, name, classic)
            return JavaReadingMember(java, TOPIC, GROUP, name, classic)

        java = stack.enter_context(or_skip(lambda: running_java_clients(broker.bootstrap_servers)))
        return start

    with ExitStack() as stack:
        roll(tmp_path, strategy, starting, record_tried)
