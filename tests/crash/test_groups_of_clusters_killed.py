"""Two nodes on one store, with a consumer group of both protocols and a share group. The coordinators are killed with
SIGKILL, or moved to the other node, while members have to give partitions back: no partition has two owners, each
record is read, and the share group accepts each record. ``CRASH_SEED`` replays it."""

import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType, KafkaException, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from siltstone.broker.groups.groups import partition_of_group
from support.broker.broker_process import checked_store
from support.broker.cluster_clients import made_topic, until
from support.broker.cluster_processes import ClusterProcesses
from support.groups.reading_members import QUIET, Member, ReadingMember, owned_twice
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

TOPIC, GROUP, SHARES, PARTITIONS, NODES, SECONDS = "t", "g", "shares", 6, 2, 90
OFFSETS = "__consumer_offsets"
pytestmark = [
    pytest.mark.crash, pytest.mark.clients, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600),
]  # fmt: skip


class ShareMember:
    """Accepts each record, and notes those whose acceptance was confirmed."""

    def __init__(self, servers: str) -> None:
        self.accepted: set[tuple[int, int]] = set()
        self._ends = threading.Event()
        self._consumer = ShareConsumer({
            "bootstrap.servers": servers, "group.id": SHARES, "share.acknowledgement.mode": "explicit", **QUIET,
        })  # fmt: skip
        self._consumer.subscribe([TOPIC])
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def end(self) -> None:
        self._ends.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _read(self) -> None:
        while not self._ends.is_set():
            taken: set[tuple[int, int]] = set()
            for message in self._consumer.poll(0.5):
                if message.error() is None:
                    self._consumer.acknowledge(message, AcknowledgeType.ACCEPT)
                    taken.add((message.partition(), message.offset()))
            try:
                told = self._consumer.commit_sync(10.0) if taken else {}
            except KafkaException:  # it comes again when its lock is over
                continue
            failed = {each.partition for each, error in told.items() if error is not None}
            self.accepted |= {each for each in taken if each[0] not in failed}
        self._consumer.close()


def from_the_beginning(servers: str) -> None:
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, SHARES, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers, **QUIET})
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)


def produce(servers: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, **QUIET})
    for number in range(first, first + count):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


def disturb(cluster: ClusterProcesses, group: str, *, kills: bool) -> None:
    """Takes the coordinator of the group away from its node."""
    partition = partition_of_group(group, len(cluster.leaders(OFFSETS)))
    if not kills:
        cluster.move(OFFSETS, partition)
        return
    victim = cluster.leaders(OFFSETS)[partition]
    cluster.nodes[victim].kill()
    until(lambda: cluster.leaders(OFFSETS)[partition] != victim, "the failover", SECONDS)
    cluster.start(victim)


@pytest.mark.nightly(tried="coordinators")
@pytest.mark.parametrize("kills", [True, False], ids=["killed", "moved"])
def test_ng24_sh17_coordinators_go_in_the_middle_of_a_revocation(
    tmp_path: Path, kills: bool, record_tried: RecordTried
) -> None:
    rng = random.Random(seed_of_this_run("CRASH_SEED"))
    with ClusterProcesses(tmp_path / "store", NODES) as cluster:
        servers = cluster.bootstrap
        made_topic(servers, TOPIC, PARTITIONS)
        from_the_beginning(servers)
        strategy = rng.choice(["range", "cooperative-sticky"])
        alive: list[Member] = [ReadingMember(servers, TOPIC, GROUP, "c0", strategy)]
        everybody, produced, shares = list(alive), 0, [ShareMember(servers)]
        until(lambda: len(alive[0].owned) == PARTITIONS, "all partitions", SECONDS)
        for number in range(4):
            produce(servers, produced, 300)
            produced += 300
            if len(alive) > 2:
                alive.pop(0).end()
            protocol = rng.choice([None, strategy])
            alive.append(ReadingMember(servers, TOPIC, GROUP, f"m{number}", protocol))
            everybody.append(alive[-1])
            shares.append(ShareMember(servers))
            time.sleep(
                rng.uniform(0.0, 4.0)
            )  # somewhere in the revocation that the new member is the reason for
            disturb(cluster, rng.choice([GROUP, SHARES]), kills=kills)
            until(lambda member=alive[-1]: member.owned, f"partitions of m{number}", SECONDS)
        everything = {(number % PARTITIONS, number // PARTITIONS) for number in range(produced)}

        def missing() -> set[tuple[int, int]]:
            return everything - {each for member in everybody for each in member.records}

        until(lambda: not missing(), lambda: f"{len(missing())} records", SECONDS)
        until(
            lambda: everything <= {each for member in shares for each in member.accepted},
            "all records accepted",
            SECONDS,
        )
        for member in (*alive, *shares):
            member.end()
        assert owned_twice(everybody) == []
        assert not any("Traceback" in node.log for node in cluster.nodes.values())
        record_tried("coordinators", 4)
    checked_store(tmp_path / "store")
