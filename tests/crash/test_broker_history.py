"""The broker is killed with SIGKILL and started again while producers and consumers are at work. No acknowledged
record is lost, no record of an idempotent producer is there twice, the order holds, no consumer has read a record
that was not durable, and no committed offset of a group moves back."""

import random
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from conformance.brokers.broker import BrokerSettings
from conformance.brokers.siltstone import open_siltstone
from support.broker.broker_history import Actor, History, Log, consuming, faults_in, producing, read_log
from support.broker.cluster_clients import until
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

TOPIC, PARTITIONS, WRITERS, MEMBERS = "history", 4, 3, 2
SECONDS_MAX = 60

pytestmark = [pytest.mark.crash, pytest.mark.xdist_group("broker-history")]


def lived_through(folder: Path, seed: int, kills: int) -> tuple[History, Log]:
    rng = random.Random(seed)
    history = History()
    settings = BrokerSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=1_000)
    with open_siltstone(settings, folder) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(SECONDS_MAX)
        writers = [Actor(history, producing(broker.bootstrap, TOPIC, n, 300)) for n in range(WRITERS)]
        readers = [Actor(history, consuming(broker.bootstrap, TOPIC)) for _ in range(MEMBERS)]
        for _ in range(kills):
            time.sleep(rng.uniform(0.5, 2))
            broker.kill()
            time.sleep(rng.uniform(0, 0.3))
            broker.start()
        until(lambda: history.seen and history.committed, "records and commits at the group")
        for actors in (writers, readers):
            for actor in actors:
                actor.finish()
            for actor in actors:
                actor.join()
        return history, read_log(broker.bootstrap, TOPIC, PARTITIONS)


def assert_right(history: History, log: Log, kills: int) -> None:
    faults = faults_in(history, log)
    assert not faults, faults[:10]
    assert len(history.acknowledged) > 100 * (kills + 1)
    assert history.committed and history.seen


@pytest.mark.timeout(420)
def test_nothing_promised_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    kills = 3
    assert_right(*lived_through(tmp_path, seed=1, kills=kills), kills)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(4))
def test_nothing_promised_is_lost_when_the_broker_is_killed_again_and_again(
    tmp_path: Path, part: int, record_tried: RecordTried
) -> None:
    """Each night has other seeds; ``CRASH_SEED=7`` with ``-k "again and 0"`` repeats one."""
    kills = 15
    history, log = lived_through(tmp_path, seed_of_this_run("CRASH_SEED"), kills)
    record_tried("seeds", 1)
    record_tried("kills", kills)
    record_tried("records acknowledged", len(history.acknowledged))
    record_tried("records read", len(history.seen))
    assert_right(history, log, kills)


HELD = {(0, 0): "w0 0", (0, 1): "w0 1", (1, 0): "w1 0"}


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda history, log: log.records.pop((0, 1)), "acknowledged at (0, 1)"),
        (
            lambda history, log: history.acknowledged_somewhere.append("w0 2"),
            "acknowledged and not there: w0 2",
        ),
        (lambda history, log: log.records.update({(0, 2): "w0 1"}), "2 times in the log"),
        (lambda history, log: log.records.update({(0, 0): "w0 1", (0, 1): "w0 0"}), "out of order"),
        (lambda history, log: history.seen.append(((1, 7), "w1 9")), "read at (1, 7)"),
        (lambda history, log: log.committed.update({0: 1}), "2 was committed, now it is 1"),
        (lambda history, log: history.seen.pop(), "passed over by the group"),
        (lambda history, log: history.failures.append("a client gave up"), "a client gave up"),
    ],
    ids=[
        "lost",
        "lost-somewhere",
        "doubled",
        "disordered",
        "read-and-lost",
        "offset-back",
        "passed-over",
        "failed",
    ],
)
def test_the_checker_finds(spoil, fault: str) -> None:
    history, log = History(), Log(dict(HELD), {0: 2, 1: 1})
    history.acknowledged = dict(HELD)
    history.acknowledged_somewhere = ["w0 1"]
    history.seen = list(HELD.items())
    history.committed = {0: 2, 1: 1}
    assert faults_in(history, log) == []
    spoil(history, log)
    assert any(fault in found for found in faults_in(history, log)), faults_in(history, log)
