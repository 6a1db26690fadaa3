"""(co) What the console costs the broker that has it: memory, and latency of a producer beside an open overview."""

import http.client
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.brokers.process_cost import cost_of
from benchmarks.support.places import folder
from benchmarks.support.report import Row, at_most
from siltstone.model.limits import MIB
from support.broker.broker_process import BrokerProcess

TITLE = "(co) The console in a broker: memory, pages a second, and a producer beside an open overview"
PORT = 19_644
TOPICS, PARTITIONS = 100, 100
PAGES = 300
ROUNDS, ROUND_SECONDS, RECORDS_PER_SECOND = 4, 10, 500
POLL_SECONDS = 5
TABS = 3
"""Open overviews; each loads its part again every five seconds."""


def run() -> list[Row]:
    with folder() as place, _broker(place / "plain", console=False) as plain:
        _ask("/livez")
        without = plain.resident_bytes
    with folder() as place, _broker(place / "console", console=True) as broker:
        first = time.perf_counter()
        _ask("/")
        first_ms = (time.perf_counter() - first) * 1000
        begun, cpu = time.perf_counter(), cost_of(broker.process_id).cpu_seconds
        for _ in range(PAGES):
            _ask("/")
        seconds = time.perf_counter() - begun
        cpu_ms = (cost_of(broker.process_id).cpu_seconds - cpu) * 1000 / PAGES
        added = broker.resident_bytes - without
        alone, beside = [], []
        for _ in range(ROUNDS):  # in turns, so that other work of the machine meets both
            alone.append(_p99_ms(broker))
            with _open_tabs():
                beside.append(_p99_ms(broker))
        ratio = min(beside) / min(alone)
    return [
        at_most(
            f"memory that the console adds to a broker of {TOPICS * PARTITIONS:,} partitions", added / MIB, 40, " MiB"
        ),
        Row(
            "overviews a second, one after another; CPU of one; the first",
            f"{PAGES / seconds:.0f}; {cpu_ms:.1f} ms; {first_ms:.0f} ms",
        ),
        at_most(
            f"p99 of {RECORDS_PER_SECOND} records a second beside {TABS} open overviews",
            ratio, 1.1, " ×", f"{min(alone):.1f} ms alone, {min(beside):.1f} ms beside",
        ),
    ]  # fmt: skip


@contextmanager
def _broker(place: Path, *, console: bool) -> Iterator[BrokerProcess]:
    settings = {"admin.listeners": f"127.0.0.1:{PORT}", "admin.console": str(console).lower()}
    place.mkdir()
    with BrokerProcess(place / "store", settings) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        made = admin.create_topics([NewTopic(f"t{number}", PARTITIONS, 1) for number in range(TOPICS)])
        for each in made.values():
            each.result(60)
        yield running


def _ask(path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 200, (path, answer.status)
    answer.read()
    connection.close()


@contextmanager
def _open_tabs() -> Iterator[None]:
    ending = Event()

    def tab() -> None:
        _ask("/")
        while not ending.wait(POLL_SECONDS):
            _ask("/overview/live")

    tabs = [Thread(target=tab) for _ in range(TABS)]
    for each in tabs:
        each.start()
        time.sleep(POLL_SECONDS / TABS)
    try:
        yield
    finally:
        ending.set()
        for each in tabs:
            each.join()


def _p99_ms(broker: BrokerProcess) -> float:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "log_level": 0}
    )
    latencies: list[float] = []

    def sent(at: float) -> Callable[[object, object], None]:
        return lambda error, _: latencies.append(time.perf_counter() - at) if error is None else None

    begun = time.perf_counter()
    for number in range(ROUND_SECONDS * RECORDS_PER_SECOND):
        due = begun + number / RECORDS_PER_SECOND
        producer.poll(max(0.0, due - time.perf_counter()))
        producer.produce(
            f"t{number % TOPICS}",
            bytes(100),
            partition=number // TOPICS % PARTITIONS,
            on_delivery=sent(time.perf_counter()),
        )
    assert producer.flush(60) == 0 and len(latencies) == ROUND_SECONDS * RECORDS_PER_SECOND
    return sorted(latencies)[int(len(latencies) * 0.99)] * 1000
