"""(ad) Measures a producer of 1,000 records a second beside a cold reader and beside every kind of maintenance that
copies, with grades against without.

"With" is a broker whose catch-up reads give way to appends, and maintenance at a rate; "without" has neither. Both have
a store with the same data, and are measured in turn, one after the other for each row. The multiples are of the
producer's p99 on the same broker a moment before, while nothing else is done. The last row compares the rate of SSO
compaction alone with the rate that was set for it.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.brokers.client import AckLatency, Consume, Latencies, Produce, Target, Throughput
from benchmarks.brokers.client_runs import answer_of, begun
from benchmarks.brokers.contenders import Siltstone
from benchmarks.support.compacting import compact
from benchmarks.support.filling import fill
from benchmarks.support.page_cache import forget
from benchmarks.support.places import folder, store_settings
from benchmarks.support.report import Row, at_most
from oracles.broker_process import BrokerProcess
from siltstone.model.limits import KIB, MIB
from siltstone.offline.opening.store import open_store
from siltstone.offline.settings import CompactionSettings, CopyRates
from siltstone.offline.tasks.runner import InProcessRunner, Task
from siltstone.runtime.tasks import OnProgress

TITLE = "(ad) a producer beside a cold reader and beside maintenance, with grades against without"

RATE = 16 * MIB
PACE = AckLatency(1000, 5.0)
READ_BYTES = 192 * MIB
KEYED_RECORDS = 24_000
TABLE_BYTES = 24 * MIB
OWN_RATE, OWN_BYTES = 8 * MIB, 64 * MIB
"""The rate and the bytes of the compaction that is measured alone: it takes eight seconds, and a busy machine reaches
the rate, too."""

KINDS = ("sso-compaction", "key-compaction", "so-compaction", "table-export", "major-gc", "relocation")
BLOCK = "engine.upload.cache_block_bytes_max=16MiB"
WITH = ("read.catch_up_gives_way=true",)
WITHOUT = ("read.catch_up_gives_way=false",)


class Beside(msgspec.Struct, frozen=True):
    """A producer's p99 in milliseconds, alone and beside other work; ``mb_per_second`` is the rate of a reader."""

    quiet_ms: float
    beside_ms: float
    mb_per_second: float = 0.0

    @property
    def multiple(self) -> float:
        return self.beside_ms / self.quiet_ms


class Side:
    """One of the two brokers, with its store."""

    def __init__(self, place: Path, settings: tuple[str, ...], rate: int) -> None:
        place.mkdir()
        self.place = place
        self.rate = rate
        self.prepared = Siltstone().prepared(place)
        for setting in (BLOCK, *settings):
            self.prepared.command += ["--set", setting]

    @contextmanager
    def running(self) -> Iterator["Side"]:
        with self.prepared.started() as self.broker:
            yield self

    broker: BrokerProcess

    def target(self, topic: str) -> Target:
        return Target(self.broker.bootstrap_servers, topic)

    def new_topic(self, name: str, partitions: int = 1, **configs: str) -> Target:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        dotted = {key.replace("_", "."): text for key, text in configs.items()}
        admin.create_topics([NewTopic(name, partitions, 1, config=dotted)])[name].result(60)
        return self.target(name)

    def fill(self) -> None:
        read = self.new_topic("read", segment_bytes=str(16 * MIB))
        answer_of(read, Produce(128 * KIB, READ_BYTES, 120), Throughput)
        answer_of(self.new_topic("table", siltstone_table_format="parquet"), Produce(128 * KIB, TABLE_BYTES, 60),
                  Throughput)  # fmt: skip
        self.new_topic("keyed", 4, cleanup_policy="compact", segment_bytes=str(MIB))
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "linger.ms": 20})
        for number in range(KEYED_RECORDS):
            producer.produce("keyed", bytes(1000), key=b"%d" % (number % 5000), partition=number % 4)
            producer.poll(0)
        assert producer.flush(600) == 0
        self.new_topic("beside")
        answer_of(self.target("beside"), AckLatency(1000, 1.0), Latencies)

    def beside(self, other: Callable[[], float]) -> Beside:
        """Measures the producer alone, then beside ``other``, which returns the MB/s of a reader."""
        target = self.target("beside")
        quiet = answer_of(target, PACE, Latencies)
        found = [0.0]
        with begun(target, PACE) as producer:
            thread = threading.Thread(target=lambda: found.append(other()))
            thread.start()
            beside = producer.answer(Latencies)
            thread.join()
        return Beside(quiet.p99_ms, beside.p99_ms, found[-1])

    def cold_read(self) -> float:
        forget(self.place)
        read = answer_of(self.target("read"), Consume(READ_BYTES // KIB, PACE.seconds), Throughput)
        return read.size_bytes / 1e6 / read.seconds

    def maintain(self, kind: str) -> float:
        rates = [
            f"maintenance.copy_bytes_per_second={self.rate}",
            f"maintenance.gc.copy_bytes_per_second={self.rate}",
        ]
        flags = [text for rate in rates for text in ("--set", rate)]
        self.command("maintain", "run", "--kind", kind, "--force", "--runner", "in-process", "--json", *flags)
        return 0.0

    def prepare(self, kind: str) -> None:
        """Makes work for a kind that has none yet."""
        if kind == "major-gc":
            admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
            part = TopicPartition("read", 0, READ_BYTES // KIB * 2 // 3)
            for future in admin.delete_records([part]).values():
                future.result(60)
        elif kind == "relocation":
            self.command("buckets", "add", (self.place / "second").as_uri())
            self.command("buckets", "drain", "0")

    def command(self, *words: str) -> str:
        program = [self.prepared.command[0], *words, "--store", str(self.place / "store")]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{' '.join(words)}: {done.stdout[-500:]}{done.stderr[-500:]}", file=sys.stderr)
        return done.stdout


def run(kinds: tuple[str, ...] = KINDS) -> list[Row]:
    with folder() as place, ExitStack() as running:
        sides = [Side(place / "with", WITH, RATE), Side(place / "without", WITHOUT, 0)]
        for side in sides:
            with side.running():
                side.fill()
        for side in sides:
            running.enter_context(side.running())
        rows = [*_reader_rows([side.beside(side.cold_read) for side in sides])]
        for kind in kinds:
            found = []
            for side in sides:
                side.prepare(kind)
                found.append(side.beside(lambda side=side, kind=kind: side.maintain(kind)))
            rows.append(_row(f"beside {kind}", *found))
    return [*rows, own_rate()]


def _reader_rows(found: list[Beside]) -> Iterator[Row]:
    with_grades, without = found
    yield _row("beside a cold reader", with_grades, without)
    yield Row(
        "… the cold reader",
        f"{with_grades.mb_per_second:,.0f} MB/s",
        f"without: {without.mb_per_second:,.0f}",
    )


def _row(measure: str, with_grades: Beside, without: Beside) -> Row:
    against = (
        f"{with_grades.quiet_ms:.1f} → {with_grades.beside_ms:.1f} ms; without {without.multiple:.2f} ×"
        f" ({without.quiet_ms:.1f} → {without.beside_ms:.1f} ms)"
    )
    return at_most(f"p99 of a producer {measure}, of the p99 alone", with_grades.multiple, 2.0, " ×", against)


class TimedRunner(InProcessRunner):
    """Runs tasks and measures them. ``seconds``: the time of its tasks, without planning and commit."""

    seconds = 0.0

    def run(
        self, task: Task, inputs: Sequence[bytes], on_progress: OnProgress | None = None, label: str = ""
    ) -> list[bytes]:
        began = time.perf_counter()
        results = super().run(task, inputs, on_progress, label)
        self.seconds += time.perf_counter() - began
        return results


def own_rate() -> Row:
    """Measures how far the tasks of an SSO compaction are from its rate."""
    with folder() as place:
        settings = store_settings(place / "store", engine__upload__cache_block_bytes_max="16MiB")
        fill(settings, 40, OWN_BYTES)
        with open_store(settings) as store:
            store.context = msgspec.structs.replace(store.context, rates=CopyRates(of_all=OWN_RATE))
            runner = TimedRunner()
            (unit,) = compact(store, runner, CompactionSettings(memory_bytes=16 * MIB)).done
    rate = unit.bytes_read / runner.seconds
    return at_most(
        "SSO compaction at a rate, how far from it", abs(rate / OWN_RATE - 1) * 100, 10.0, " %",
        f"{rate / MIB:.1f} of {OWN_RATE / MIB:.0f} MiB/s",
    )  # fmt: skip


if __name__ == "__main__":
    print(json.dumps([msgspec.structs.asdict(row) for row in run(tuple(sys.argv[1:]) or KINDS)], indent=1))
