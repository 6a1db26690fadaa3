"""(j) Measures a run of maintenance with nothing to do: all kinds, in a warm Spark, over a store of some hundred
streams. A first round, which does what there is, is not counted."""

import statistics
import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_most
from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.offline.opening.store import Store, open_store
from siltstone.server.settings.node import load_node_settings
from siltstone.spark.spark_runner import SparkRunner, open_runner

TOPICS = 20
PARTITIONS = 5
RUNS = 5
SETTLING_RUNS = 2
TITLE = "(j) a run of all kinds of maintenance with nothing to do"


def run() -> list[Row]:
    with folder() as place:
        with siltstone.Broker(place) as broker:
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
            topics = [
                NewTopic(f"topic-{number}", PARTITIONS, 1, config={"cleanup.policy": policy(number)})
                for number in range(TOPICS)
            ]
            for made in admin.create_topics(topics).values():
                made.result(30)
            produce(broker.bootstrap_servers)
        runner = open_runner()
        try:
            with open_store(load_node_settings(place, environment={})) as store:
                return [_measured(store, runner)]
        finally:
            runner.close()


def _measured(store: Store, runner: SparkRunner) -> Row:
    first = [_seconds(store, runner) for _ in range(SETTLING_RUNS)]
    seconds = [_seconds(store, runner) for _ in range(RUNS)]
    streams = len(store.metadata.image.streams)
    return at_most(
        f"time of a run, {streams} streams",
        statistics.median(seconds),
        2.0,
        " s",
        f"the first took {first[0]:.2f} s",
    )


def _seconds(store: Store, runner: SparkRunner) -> float:
    begin = time.perf_counter()
    driver = Driver(store.context, lambda: runner, Scope(), Budget())
    reports = list(driver.run(chosen_kinds(store.kind_settings, ())))
    assert not any(report.trouble or report.failed for report in reports), reports
    return time.perf_counter() - begin


def produce(bootstrap_servers: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(TOPICS):
        for key in range(100):
            producer.produce(f"topic-{number}", b"value", b"%d" % key, partition=key % PARTITIONS)
    assert producer.flush(60) == 0


def policy(number: int) -> str:
    return "compact" if number % 2 else "delete"
