"""A broker killed with SIGKILL while transactional producers commit and abort, at random moments: of each transaction
readers of committed records get all or nothing, in every partition, and the offsets that it commits with the rest.
``CRASH_SEED`` replays the moments.

A transaction is one number, once in each of three partitions, and the number as the offset of a group. Its outcome is
known if the producer was told; if the broker died meanwhile, both are right.
"""

import random
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker.broker_process import BrokerProcess, checked_store
from support.kafka.transactional_writers import (
    PARTITIONS,
    QUIET,
    SECONDS,
    TOPIC,
    Writer,
    committed_numbers,
    committed_offset,
    refuse_torn,
)
from support.processes.ports import free_port
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


def kill_while_they_write(folder: Path, seed: int, kills: int, record_tried: RecordTried) -> None:
    rng = random.Random(seed)
    port = free_port()
    with BrokerProcess(folder / "store", port=port) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS)]).values():
            future.result(SECONDS)
        servers = broker.bootstrap_servers
        writers = [Writer(servers, f"writer-{each}", seed + each, 1_000_000 * each) for each in range(2)]
        for _ in range(kills):
            time.sleep(rng.uniform(0.3, 2.0))
            broker.kill()
            broker.start()
        time.sleep(1)
        for writer in writers:
            writer.end()
        for writer in writers:  # a new instance ends what the last one has left open
            last = Producer({"bootstrap.servers": servers, "transactional.id": writer.name, **QUIET})
            last.init_transactions(SECONDS)
        found = committed_numbers(servers)
        refuse_torn(found, writers)
        for writer in writers:
            own = [number for number in found[0] if number in writer.outcomes]
            assert committed_offset(servers, writer.group) == own[-1], (
                "offsets and data are of one transaction"
            )
        told = sum(outcome is not None for writer in writers for outcome in writer.outcomes.values())
        record_tried("kills", kills)
        record_tried("transactions", told)
        assert told > 20 and "Traceback" not in broker.log
    checked_store(folder / "store")


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(12))
def test_tx31_many_kills_show_no_torn_transaction(
    tmp_path: Path, part: int, record_tried: RecordTried
) -> None:
    kill_while_they_write(tmp_path, seed_of_this_run("CRASH_SEED"), kills=12, record_tried=record_tried)
