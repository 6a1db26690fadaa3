"""A broker killed with SIGKILL while members of a group of KIP-848 come and go: no partition has two owners at any
time, and no record is missed. ``CRASH_SEED`` replays it."""

import random
import time
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker.broker_process import BrokerProcess, checked_store
from support.broker.cluster_clients import until
from support.groups.reading_members import QUIET, ReadingMember, owned_twice
from support.processes.ports import free_port
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

TOPIC, GROUP, PARTITIONS, SECONDS = "t", "g", 6, 60
pytestmark = [pytest.mark.crash, pytest.mark.timeout(600), pytest.mark.nightly]


def produce(servers: str, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, **QUIET})
    for number in range(first, first + count):
        producer.produce(TOPIC, str(number), partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


def test_ng24_a_killed_broker_gives_no_partition_to_two_members(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    rng, kills = random.Random(seed_of_this_run("CRASH_SEED")), 4
    with BrokerProcess(tmp_path / "store", port=free_port()) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, **QUIET})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
            future.result(SECONDS)
        alive = [ReadingMember(servers, TOPIC, GROUP, f"m{each}") for each in range(2)]
        everybody, produced = list(alive), 0
        for kill in range(kills):
            produce(servers, produced, 600)
            produced += 600
            if rng.random() < 0.5 or len(alive) < 2:
                alive.append(ReadingMember(servers, TOPIC, GROUP, f"n{kill}"))
                everybody.append(alive[-1])
            else:
                alive.pop(rng.randrange(len(alive))).end()
            time.sleep(rng.uniform(0.1, 6.0))
            broker.kill()
            broker.start()
        everything = {(number % PARTITIONS, number // PARTITIONS) for number in range(produced)}
        until(
            lambda: everything <= {record for member in everybody for record in member.records},
            "all records",
            120,
        )
        assert owned_twice(everybody) == []
        for member in alive:
            member.end()
        committed = admin_offsets(admin)
        assert committed == dict.fromkeys(range(PARTITIONS), produced // PARTITIONS)
        assert "Traceback" not in broker.log
        record_tried("kills", kills)
        record_tried("members", len(everybody))
    checked_store(tmp_path / "store")


def admin_offsets(admin: AdminClient) -> dict[int, int]:
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]).values()
    found: list[TopicPartition] = future.result(SECONDS).topic_partitions
    return {each.partition: each.offset for each in found}
