"""(xt, xc) Compares transactions at Siltstone with those at Apache Kafka, every broker warm, in turn in one run.

``python -m benchmarks.transactions --rounds 1 --brokers Siltstone`` runs a part of it.
"""

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from benchmarks.brokers.client import STALL_SECONDS, Target
from benchmarks.brokers.client_runs import ClientFailed
from benchmarks.brokers.contenders import KAFKA_DEFAULT, KAFKA_FLUSHED, SILTSTONE, Contender
from benchmarks.brokers.measuring import Figure
from benchmarks.brokers.process_cost import cost_of
from benchmarks.brokers.transacting import RECORD_BYTES, Copied, Copy, Transact, Transacted
from benchmarks.kafka import Rounds, takes_part
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_least, at_most, show
from oracles.broker_process import BrokerProcess

TITLE = "(xt) transactions of one record a partition"
COPY_TITLE = "(xc) records consumed, transformed and produced in transactions of 1,000"
CONTENDERS = (SILTSTONE, KAFKA_FLUSHED, KAFKA_DEFAULT)
ROUNDS = 3
SHAPES = ((1, 1, False), (1, 10, False), (16, 1, False), (16, 10, False), (1, 1, True))
"""Producers, partitions, whether librdkafka runs them in transaction version 1."""
WARM_SECONDS, SECONDS = 5.0, 5.0
COPIED, COPIED_AT_ONCE = 1_000_000, 1_000
MORE_THAN_KAFKA = 2.0
COMMIT_P99_OF_KAFKA = 0.5
AGAINST_PLAIN = 0.8

T = TypeVar("T")


def run() -> list[Row]:
    return transaction_rows(CONTENDERS, ROUNDS)


def run_copies() -> list[Row]:
    return copy_rows(CONTENDERS, ROUNDS)


# -- transactions --------------------------------------------------------------------------------------------------


def transaction_rows(contenders: Iterable[Contender], rounds: int) -> list[Row]:
    found = _rounds(contenders, rounds, _transactions)
    rows = [_head(found)]
    for number, figure in enumerate(next(iter(found.values()))[0]):
        value, against = _against(found, number)
        flushed = _ratio(found, number, KAFKA_FLUSHED.name)
        aimed = flushed is not None and next(iter(found)) == SILTSTONE.name
        if figure.unit == "/s" and aimed:
            rows.append(
                at_least(
                    f"{figure.measure}, against {KAFKA_FLUSHED.name}",
                    flushed,
                    MORE_THAN_KAFKA,
                    " ×",
                    f"{value}; {against}",
                )
            )
        elif figure.measure.endswith("p99") and aimed:
            rows.append(
                at_most(
                    f"{figure.measure}, against {KAFKA_FLUSHED.name}",
                    flushed,
                    COMMIT_P99_OF_KAFKA,
                    " ×",
                    f"{value}; {against}",
                )
            )
        else:
            rows.append(Row(figure.measure, value, against))
    return rows


def _transactions(broker: BrokerProcess) -> list[Figure]:
    figures = []
    for number, (producers, partitions, by_librdkafka) in enumerate(SHAPES):
        target = _topic(broker, f"transactions-{number}", partitions)
        _answer(target, Transact(producers, partitions, WARM_SECONDS, by_librdkafka), Transacted)
        before = cost_of(broker.pid).cpu_seconds
        done = _answer(target, Transact(producers, partitions, SECONDS, by_librdkafka), Transacted)
        cpu_ms = (cost_of(broker.pid).cpu_seconds - before) * 1000
        count = len(done.end_ms)
        spread = statistics.quantiles(done.end_ms, n=100)
        who = "librdkafka" if by_librdkafka else _counted(producers, "producer")
        what = f"{who}, {_counted(partitions, 'partition')}"
        figures += [
            Figure(f"{what}: transactions", "/s", count / done.seconds),
            Figure(f"{what}: commit, p50", "ms", spread[49]),
            Figure(f"{what}: commit, p99", "ms", spread[98]),
            Figure(f"{what}: CPU of the broker for a transaction", "ms", cpu_ms / count),
            Figure(f"{what}: CPU of the client", "ms", done.client_cpu_seconds * 1000 / count),
            Figure(
                f"{what}: requests told to come again, for 100 transactions", "", 100 * done.retries / count
            ),
        ]
    return figures


# -- copies --------------------------------------------------------------------------------------------------------


def copy_rows(contenders: Iterable[Contender], rounds: int) -> list[Row]:
    found = _rounds(contenders, rounds, _copies)
    rows = [_head(found)]
    for number, figure in enumerate(next(iter(found.values()))[0]):
        value, against = _against(found, number)
        if figure.unit == "×":
            median = statistics.median(figures[number].value for figures in next(iter(found.values())))
            rows.append(at_least(figure.measure, median, AGAINST_PLAIN, " ×", against))
        else:
            rows.append(Row(figure.measure, value, against))
    return rows


def _copies(broker: BrokerProcess) -> list[Figure]:
    source = _topic(broker, "source", 1)
    _fill(source)
    _copy(broker, source, "warm-up", COPIED // 10, in_transactions=True)
    plain, plain_cpu = _copy(broker, source, "plain", COPIED, in_transactions=False)
    transactional, transactional_cpu = _copy(broker, source, "transactional", COPIED, in_transactions=True)
    return [
        Figure("in transactions: records", "/s", transactional),
        Figure("without: records", "/s", plain),
        Figure("in transactions against without", "×", transactional / plain),
        Figure("in transactions: CPU of the broker for a million records", "s", transactional_cpu),
        Figure("without: CPU of the broker", "s", plain_cpu),
    ]


def _copy(
    broker: BrokerProcess, source: Target, out: str, records: int, *, in_transactions: bool
) -> tuple[float, float]:
    _topic(broker, out, 1)
    before = cost_of(broker.pid).cpu_seconds
    done = _answer(source, Copy(out, records, COPIED_AT_ONCE, in_transactions), Copied)
    return done.records / done.seconds, (cost_of(broker.pid).cpu_seconds - before) * 1e6 / done.records


def _fill(target: Target) -> None:
    producer = Producer({
        "bootstrap.servers": target.bootstrap, "linger.ms": 20, "batch.size": 131_072,
        "queue.buffering.max.messages": 200_000, "enable.idempotence": True,
    })  # fmt: skip
    messages = [{"value": os.urandom(RECORD_BYTES)} for _ in range(1_000)]
    for _ in range(COPIED // len(messages)):
        producer.produce_batch(target.topic, messages, partition=0)
        while len(producer) > 100_000:
            producer.poll(0.01)
    assert producer.flush(STALL_SECONDS) == 0


# -- both ----------------------------------------------------------------------------------------------------------


def _rounds(contenders: Iterable[Contender], rounds: int, measure) -> Rounds:  # type: ignore[no-untyped-def]
    taking_part = [each for each in contenders if takes_part(each)]
    found: Rounds = {each.name: [] for each in taking_part}
    for _ in range(rounds):
        for contender in taking_part:
            with folder() as place, contender.prepared(Path(place)).started() as broker:
                found[contender.name].append(measure(broker))
    return found


def _head(found: Rounds) -> Row:
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    return Row("the figures are those of", next(iter(found)), f"the other's figure; load at the end: {load}")


def _against(found: Rounds, number: int) -> tuple[str, str]:
    first = next(iter(found))
    unit = found[first][0][number].unit
    texts = []
    for other in found:
        value = statistics.median(figures[number].value for figures in found[other])
        texts.append(f"{value:,.0f} {unit}" if value >= 100 else f"{value:.2f} {unit}")
    ratios = (_ratio(found, number, other) for other in found if other != first)
    others = (
        f"{other} {text} ({ratio:.2f} ×)" if ratio is not None else f"{other} {text}"
        for other, text, ratio in zip([*found][1:], texts[1:], ratios, strict=True)
    )
    return texts[0], "; ".join(others)


def _ratio(found: Rounds, number: int, other: str) -> float | None:
    """Returns the median of the ratios within a round."""
    if other not in found:
        return None
    pairs = zip(next(iter(found.values())), found[other], strict=True)
    ratios = [ours[number].value / theirs[number].value for ours, theirs in pairs if theirs[number].value]
    return statistics.median(ratios) if ratios else None


def _topic(broker: BrokerProcess, name: str, partitions: int) -> Target:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
    return Target(broker.bootstrap_servers, name)


def _answer(target: Target, task: Transact | Copy, kind: type[T]) -> T:
    arguments = [msgspec.json.encode(each).decode() for each in (target, task)]
    command = [sys.executable, "-m", "benchmarks.brokers.transacting", *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise ClientFailed(done.stderr.decode(errors="replace")[-1000:])
    return msgspec.json.decode(done.stdout, type=kind)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count > 1)}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=TITLE)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--brokers", nargs="*", default=[each.name for each in CONTENDERS])
    parser.add_argument("--only", choices=["xt", "xc"], nargs="*", default=["xt", "xc"])
    given = parser.parse_args(arguments)
    contenders = [each for each in CONTENDERS if each.name in given.brokers]
    if "xt" in given.only:
        show(TITLE, transaction_rows(contenders, given.rounds), Console())
    if "xc" in given.only:
        show(COPY_TITLE, copy_rows(contenders, given.rounds), Console())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
