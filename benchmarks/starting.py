"""(st) What it costs to start: the CPU of each command that asks a broker, whole processes with the interpreter; and
the time from ``siltstone.Broker()`` in a new process to the first record that comes back."""

import os
import statistics
import subprocess
import sys
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_most
from support.broker.broker_process import BrokerProcess

TITLE = "(st) Starting: commands that ask a broker, and the first record of siltstone.Broker()"
ROUNDS = 7
COMMAND_SECONDS_MAX = 0.25
FIRST_SECONDS_MAX = 0.25
TOPIC, GROUP = "orders", "readers"
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("topics",), ("topics", "describe", TOPIC), ("topics", "configure", TOPIC, "retention.ms=1000000000"), ("groups",),
    ("groups", "describe", GROUP), ("transactions",), ("tail", TOPIC, "--until-end"),
)  # fmt: skip
FIRST = """
import time
began = time.perf_counter()
import siltstone, confluent_kafka
with siltstone.Broker() as broker:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("t", b"first")
    producer.flush()
    consumer = confluent_kafka.Consumer({
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest",
    })
    consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
    while consumer.poll(0.1) is None:
        pass
    print(time.perf_counter() - began)
    consumer.close()
"""


def run() -> list[Row]:
    with folder() as place, BrokerProcess(place / "store") as broker:
        _fill(broker)
        rows = [_row(command, broker) for command in COMMANDS]
    return [*rows, _first()]


def _fill(broker: BrokerProcess) -> None:
    """Makes a topic with a record, and a group that has read it."""
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    admin = AdminClient(servers)
    for made in admin.create_topics([NewTopic(TOPIC, 3)]).values():
        made.result(30)
    producer = confluent_kafka.Producer(servers)
    producer.produce(TOPIC, b"a")
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer(servers | {"group.id": GROUP})
    consumer.commit(offsets=[confluent_kafka.TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    consumer.close()


def _row(command: tuple[str, ...], broker: BrokerProcess) -> Row:
    line = [
        str(Path(sys.executable).with_name("siltstone")),
        *command,
        "--bootstrap",
        broker.bootstrap_servers,
    ]
    seconds = [_cpu_of(line) for _ in range(ROUNDS)]
    name = f"siltstone {' '.join(command)}, CPU"
    return at_most(name, statistics.median(seconds), COMMAND_SECONDS_MAX, " s", f"least {min(seconds):.2f} s")


def _cpu_of(line: list[str]) -> float:
    started = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert started.returncode == 0, f"{line} ended with {started.returncode}"
    return used.ru_utime + used.ru_stime


def _first() -> Row:
    seconds = [
        float(
            subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True).stdout
        )
        for _ in range(ROUNDS)
    ]
    name = "first record that comes back from siltstone.Broker(), with the imports"
    return at_most(name, statistics.median(seconds), FIRST_SECONDS_MAX, " s", f"least {min(seconds):.2f} s")
