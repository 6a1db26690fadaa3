"""A real S3 server that is killed and started again while everything works on it: a broker with its write-ahead log
there, uploads, key compaction, retention, garbage collection and the sweep.

Beside the topic whose every record is compared in the end there are one whose newest record of each key has to stay,
and one that retention cuts. Maintenance runs again and again, as a process that knows only the bucket and the metadata;
what it cannot do while the server is dead it does later. ``S3_KILLS_SEED`` replays the moments of the kills.
"""

import json
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker.broker_history import Actor, History, faults_in, producing, read_log
from support.broker.broker_process import BrokerProcess
from support.broker.cluster_clients import until
from support.engine.s3_server import S3Server, running_s3_server
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

TOPIC, PARTITIONS, WRITERS, PER_SECOND = "kept", 3, 2, 100
KEYED, KEYS = "keyed", 40
DATED, DATED_BYTES = "dated", 2_000
"""An upload has more of these records than ``split_size_bytes``, and makes a stream object of them: the kind
``dead-objects`` destroys it when retention has cut it off. A stream set object always has records of TOPIC, too."""
KILLS = 4
SECONDS_MAX = 240

KEYED_CONFIG = {"cleanup.policy": "compact", "segment.ms": "2000", "min.cleanable.dirty.ratio": "0.01"}
DATED_CONFIG = {"retention.ms": "3000", "segment.ms": "1000"}
SETTINGS = {
    "engine.wal.location": "bucket:0",
    "engine.upload.cache_block_age_ms_max": "300ms",
    "engine.upload.block_size_bytes": "4KiB",
    "engine.upload.split_size_bytes": "32KiB",
    "retry.attempts_max": "3",
    "retry.backoff_ms_max": "100ms",
    "sweep.grace_period_ms": "5s",
    "maintenance.key_compaction.lease_ms": "10s",
    "maintenance.gc.lease_ms": "10s",
}
DONE_BY_ALL = ("retention", "key-compaction", "sso-compaction", "dead-objects", "minor-gc")


def keyed_producing(bootstrap: str, newest: dict[bytes, int]) -> Callable[[Actor], None]:
    """Writes numbers under KEYS keys, each after the one before it was acknowledged. ``newest`` has the last number
    of each key."""

    def act(actor: Actor) -> None:
        producer = Producer({
            "bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0, "linger.ms": 5,
            "message.timeout.ms": SECONDS_MAX * 1000, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 50,
        })  # fmt: skip
        number = 0
        while not actor.finishing.is_set():
            told: dict[bytes, int] = {}
            for _ in range(20):
                key = b"k%d" % (number % KEYS)
                told[key] = number
                producer.produce(KEYED, str(number).encode(), key)
                producer.produce(DATED, b"d" * DATED_BYTES)
                number += 1
            left = producer.flush(SECONDS_MAX)
            assert left == 0, f"{left} records without an answer"
            newest.update(told)
            actor.finishing.wait(0.1)

    return act


class Maintenance:
    """Runs ``siltstone maintain run`` again and again, until ``close``. ``done``: how many units were done, by kind."""

    def __init__(self, broker: BrokerProcess) -> None:
        serve = broker.command
        common = serve[serve.index("--store") :]
        while "--listener" in common:
            at = common.index("--listener")
            del common[at : at + 2]
        self._command = [
            serve[0], "maintain", "run", "--force", "--json", "--runner", "in-process", *common,
        ]  # fmt: skip
        self.done: Counter[str] = Counter()
        self.troubles: list[str] = []
        self.runs_well = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            ran = subprocess.run(
                self._command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX
            )
            if "Traceback" in ran.stderr:
                self.troubles.append(ran.stderr[-2_000:])
            reports = json.loads(ran.stdout) if ran.stdout.startswith("[") else []
            for report in reports:
                self.done[report["kind"]] += sum(unit["outcome"] == "done" for unit in report["units"])
            self.runs_well += ran.returncode == 0

    def close(self) -> None:
        self._ending.set()
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive()


@pytest.mark.s3
@pytest.mark.crash
@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_an_s3_server_that_is_killed_under_log_uploads_and_maintenance_costs_nothing(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    chance = random.Random(seed_of_this_run("S3_KILLS_SEED"))
    with running_s3_server() as server:
        options = ("--bucket", server.new_url())
        with BrokerProcess(tmp_path / "store", SETTINGS, options=options) as broker:
            bootstrap = broker.bootstrap_servers
            make_topics(bootstrap)
            history, newest = History(), dict[bytes, int]()
            acts = [producing(bootstrap, TOPIC, writer, PER_SECOND) for writer in range(WRITERS)]
            actors = [Actor(history, act) for act in [*acts, keyed_producing(bootstrap, newest)]]
            maintenance = Maintenance(broker)
            try:
                for _ in range(KILLS):
                    goes_on(history, maintenance, server)
                    time.sleep(chance.uniform(0, 3))
                    server.kill()
                    record_tried("kills of the S3 server", 1)
                    time.sleep(chance.choice((0, 1, 6)))
                    server.start()
                until(
                    lambda: all(maintenance.done[kind] for kind in DONE_BY_ALL),
                    lambda: f"each kind has done something: {maintenance.done}", SECONDS_MAX,
                )  # fmt: skip
                goes_on(history, maintenance, server)
            finally:
                maintenance.close()
                for actor in actors:
                    actor.finish()
                for actor in actors:
                    actor.join()
            assert maintenance.troubles == []
            assert faults_in(history, read_log(bootstrap, TOPIC, PARTITIONS)) == []
            table, first = read_from(bootstrap, KEYED)
            assert table == newest and len(newest) == KEYS
            assert first > 0 or maintenance.done["key-compaction"], "older records of the keys are gone"
            assert read_from(bootstrap, DATED)[1] > 0, "retention has cut it"
            command = maintenance._command
            assert broker.stop() == 0, broker.log
            assert "Traceback" not in broker.log
        check = [command[0], "check", *command[command.index("--store") :]]
        checked = subprocess.run(check, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(TOPIC, PARTITIONS), NewTopic(KEYED, 1, config=KEYED_CONFIG), NewTopic(DATED, 1, config=DATED_CONFIG),
    ]  # fmt: skip
    for made in admin.create_topics(topics).values():
        made.result(60)


def goes_on(history: History, maintenance: Maintenance, server: S3Server) -> None:
    """Waits until records are acknowledged and a run of maintenance ends well."""
    acknowledged, runs = len(history.acknowledged), maintenance.runs_well
    until(lambda: len(history.acknowledged) > acknowledged + 50, "answers", SECONDS_MAX)
    until(lambda: maintenance.runs_well > runs or maintenance.troubles, "a run of maintenance", SECONDS_MAX)
    assert server.is_running


def read_from(bootstrap: str, topic: str) -> tuple[dict[bytes, int], int]:
    """Returns the newest number of each key, and the first offset that is there."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    table: dict[bytes, int] = {}
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), 60)
        consumer.assign([TopicPartition(topic, 0, low)])
        first = -1
        while True:
            message = consumer.poll(60)
            assert message is not None, f"{topic} ends at {high}, and could not be read"
            if message.error() is not None:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return table, max(low, first)
            first = message.offset() if first < 0 else first
            if message.key() is not None:
                table[message.key()] = int(message.value())
    finally:
        consumer.close()
