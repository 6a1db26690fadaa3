"""(er) Erases 100 keys from a topic with ten million records of a hundred bytes and two million keys, on a warm local
Spark, and compares the bytes that it writes with those of the objects that held such records."""

import time

from confluent_kafka import Producer

import siltstone
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_most
from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope, UnitReport
from siltstone.carrying.pipeline.running import RunReport
from siltstone.maintenance.erasing import erasure_named, follow, request_erasure
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.offline.erasures import erased_objects
from siltstone.offline.opening.store import Store, open_store
from siltstone.server.settings.node import load_node_settings
from siltstone.spark.spark_runner import SparkRunner, open_runner

RECORDS = 10_000_000
KEYS = 2_000_000
ERASED = 100
PARTITIONS = 10
TOPIC = "people"
TITLE = "(er) erasure of 100 keys from 10 M records"


def run(records: int = RECORDS, keys: int = KEYS) -> list[Row]:
    with folder() as place:
        with siltstone.Broker(place) as broker:
            broker.create_topic(TOPIC, partitions=PARTITIONS)
            _produce(broker.bootstrap_servers, records, keys)
        runner = open_runner()
        try:
            with open_store(load_node_settings(place, environment={})) as store:
                return _measured(store, runner, records, keys)
        finally:
            runner.close()


def _produce(bootstrap: str, records: int, keys: int) -> None:
    """Each key has its records all over the topic, so nearly every object holds some that are erased."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.size": 1 << 20})
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, b"%080d" % number, key=b"%012d" % (number * 7919 % keys))
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(300) == 0


def _measured(store: Store, runner: SparkRunner, records: int, keys: int) -> list[Row]:
    list(
        _driver(store, runner, Scope(is_forced=True)).run(
            chosen_kinds(store.kind_settings, ["sso-compaction"])
        )
    )
    erasure = request_erasure(store.context, TOPIC, [b"%012d" % number for number in range(ERASED)])
    begin = time.perf_counter()
    reports = list(
        follow(
            store.context,
            store.kind_settings,
            erasure.erasure_id,
            lambda scope: _driver(store, runner, scope),
        )
    )
    seconds = time.perf_counter() - begin
    ended = erasure_named(store.context, erasure.erasure_id)
    assert ended.verification is not None, reports
    erased = ERASED * (records // keys)
    assert ended.verification.records == records - erased, ended.verification
    held = sum(each.size_bytes for each in erased_objects(store.metadata.refresh(), erasure.erasure_id))
    written = sum(each.bytes_written for each in _units(reports))
    looks = 2
    return [
        at_most("bytes written, of those of the objects that held such records", written / held, 1.1, " ×"),
        Row(
            "time until nothing is left",
            f"{seconds:.1f} s",
            f"{looks} looks at {records / 1e6:.0f} M records",
        ),
        Row("records that a look reads", f"{looks * records / seconds / 1e6:.1f} M/s", "rewriting included"),
    ]


def _units(reports: list[RunReport]) -> list[UnitReport]:
    return [unit for report in reports for unit in report.units]


def _driver(store: Store, runner: SparkRunner, scope: Scope) -> Driver:
    return Driver(store.context, lambda: runner, scope, Budget())
