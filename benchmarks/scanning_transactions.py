"""(xr) A scan of committed records of a topic in which half of the batches are transactional, against a scan of a topic
with the same records and batches and no transaction. The broker is closed: the objects say what is committed."""

from functools import partial
from pathlib import Path

from confluent_kafka import Producer

import siltstone
from benchmarks.support.pairs import measure_pairs
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least

RECORDS, IN_TRANSACTION, VALUE = 2_000_000, 1_000, b"v" * 100
ROUNDS = 5
SECONDS = 60
TITLE = "(xr) a scan of committed records, half of the batches transactional"


def run(records: int = RECORDS) -> list[Row]:
    with folder() as place:
        store = place / "store"
        _filled(store, records)
        pair = measure_pairs(
            partial(_scanned, store, "mixed", records), partial(_scanned, store, "plain", records), ROUNDS
        )
    speed = f"{records / pair.their_median().wall_s / 1e6:.2f} M records/s"
    return [
        at_least(f"{records:,} records to a table", pair.speed_ratio, 0.9, " ×", f"no transaction, {speed}")
    ]


def _filled(store: Path, records: int) -> None:
    with siltstone.Broker(store) as broker:
        at = {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50, "log_level": 0}
        plain, transactional = Producer(at), Producer({**at, "transactional.id": "bench"})
        transactional.init_transactions(SECONDS)
        for number in range(records // IN_TRANSACTION):
            _send(plain, "plain")
            if number % 2:
                _send(plain, "mixed")
            else:
                transactional.begin_transaction()
                _send(transactional, "mixed")
                transactional.commit_transaction(SECONDS)


def _send(producer: Producer, topic: str) -> None:
    for _ in range(IN_TRANSACTION):
        producer.produce(topic, VALUE, partition=0)
    assert producer.flush(SECONDS) == 0


def _scanned(store: Path, topic: str, records: int) -> None:
    assert siltstone.scan(topic, store=store, columns=["value"]).to_arrow().num_rows == records
