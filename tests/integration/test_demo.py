"""The demo with fewer flights and without Spark; ``make demo`` runs all of it."""

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from siltstone.cli.demo.flights import Flight
from siltstone.cli.demo.kafka_client import ClientFailed, FlightProducer, GroupReading
from support.processes.cli import Outcome, assert_one_line, run

FEW = ("demo", "--flights", "6000", "--runner", "in-process")
FEWER = ("demo", "--flights", "300", "--runner", "in-process")

pytestmark = pytest.mark.xdist_group("demo")
"""One worker runs the demo, once for all."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """Runs the demo on a store that stays, and returns its output."""
    folder = tmp_path_factory.mktemp("demo") / "store"
    return folder, run(*FEW, "--store", folder)


def commands_of(outcome: Outcome) -> list[list[str]]:
    lines = [line for line in outcome.out.splitlines() if "$ siltstone" in line]
    return [shlex.split(line)[2:] for line in lines]


def test_the_demo_ends_with_every_record_right_and_fewer_requests(demo: tuple[Path, Outcome]) -> None:
    _, outcome = demo
    assert outcome.status == 0, outcome
    assert "6,070 of 6,070 records equal their source, in order for every plane" in outcome.words
    assert "siltstone check: clean" in outcome.words
    planes = re.search(r"6,000 records became ([\d,]+) in", outcome.words)[1]
    assert f"{planes} of {planes} planes have their last flight of the year" in outcome.words
    assert re.search(RETAINED, outcome.words)
    assert re.search(r"\d+ of \d+ objects deleted", outcome.words)
    assert re.search(r"meanwhile December was produced: \d+ flights", outcome.words)
    assert outcome.out.count("█") > 40
    assert "kafka.flights has 6,000 rows after" in outcome.words
    assert re.search(
        r"DuckDB counted 6,000 flights in [^:]*: (\d+) of \1 carriers as in the source", outcome.words
    )
    reads = [line.split() for line in outcome.out.splitlines() if "GETs to read flights-" in line]
    (*_, before, after, fewer, _times) = next(words for words in reads if "×" in words)
    assert (
        int(after) < int(before) * 2 / 3
    )  # what was produced of December after the compaction is counted, too
    assert float(fewer) > 1.5


RETAINED = (
    r"late-flights begins at offset [1-9]\d* now: .* · retention deletes whole segments, so some older records stay"
    r"|all 70 records of late-flights stay: retention deletes whole segments, and none is old enough"
)


STORY = """\
Siltstone demo All flights that left New York City in N: a Kafka broker and its maintenance.
N Read the data ✓ N flights of N planes, N of them three hours late or more
N Start a broker ✓ a Kafka broker listens on N, after N
N Produce January to November with confluent-kafka, keyed by plane
✓ N records acknowledged in N, each after it was synced to disk
N Before compaction: count objects, and the requests that reading takes
✓ N stream set objects, N index entries, N ✓ N GETs to read all of partition flights-N
✓ N GETs to read all of partition late-flights-N
· a stream set object holds data of many partitions, a stream object of one
N Compact in threads of this process, while December is produced"""


def test_the_story_is_told_in_order(demo: tuple[Path, Outcome]) -> None:
    _, outcome = demo
    words, notes = re.subn(r"· store: .* (?=3 Produce)", "", outcome.words)
    assert notes == 1
    told = re.sub(r"\b\d[\d.,:]*\b( (ms|s|min|[KM]iB|B)\b)?", "N", words)
    told = re.sub(
        r", N stream objects?(?=, N index)", "", told
    )  # an upload that waited holds enough of one stream
    assert told.startswith(" ".join(STORY.split()))
    steps = [line.split(maxsplit=1)[1] for line in outcome.out.splitlines() if re.match(r"\d+  ", line)]
    assert steps[5:] == [
        "Append the flights to an Iceberg table, while December is produced",
        "After compaction: count again, December included, with empty caches",
        "Consume all records with a group of 2 consumers, and compare",
        "Key compaction: keep the newest flight of each plane",
        "Retention: delete late flights before July",
        "Garbage collection, after the broker has stopped",
        "What each step changed",
        "The whole year in the Iceberg table, though the topic was compacted",
        "Try next",
    ]
    numbers = [int(line.split()[0]) for line in outcome.out.splitlines() if re.match(r"\d+  ", line)]
    assert numbers == list(range(1, 15))
    assert "· look into the store:" in outcome.words and "in another terminal:" in outcome.words
    grown = [
        line.split()[0] for line in outcome.out.splitlines() if line.strip().endswith("iB") and "█" in line
    ]
    assert grown == ["upload", "compaction", "key", "retention", "garbage"]


def test_it_fits_80_columns_and_needs_no_terminal(demo: tuple[Path, Outcome]) -> None:
    _, outcome = demo
    too_wide = [line for line in outcome.out.splitlines() if len(line) > 80 and "$" not in line]
    assert too_wide == [] and outcome.err == ""
    assert "\x1b" not in outcome.out


def test_the_store_that_stays_can_be_looked_at(demo: tuple[Path, Outcome]) -> None:
    folder, outcome = demo
    commands = [words for words in commands_of(outcome) if str(folder) in words]
    runs_on = ["console", "serve"]
    assert [words[0] for words in commands] == ["streams", "inspect", "check", "maintain", "tables", *runs_on]
    for words in commands[: -len(runs_on)]:
        assert run(*words).status == 0
    rows = run("streams", "--store", folder, "--json").json["streams"]
    assert sum(row["end_offset"] for row in rows) >= 6_060


@pytest.mark.nightly(tried="demos")
def test_the_store_that_stays_can_be_served_and_asked(demo: tuple[Path, Outcome]) -> None:
    _, outcome = demo
    commands = commands_of(outcome)
    serve = next(words for words in commands if words[0] == "serve")
    asking = commands[commands.index(serve) + 1 :]
    assert [words[0] for words in asking] == ["topics", "tail", "groups"]
    starting = "from siltstone.cli.main import main; main()"
    program = [sys.executable, "-c", starting, *serve, "--listener", "127.0.0.1:0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as serving:
        try:
            address = re.search(r"ready at (\S+)", serving.stdout.readline())[1]
            told = [run(*words, SILTSTONE_BOOTSTRAP=address) for words in asking]
        finally:
            serving.terminate()
            assert serving.wait(60) == 0
    assert [each.status for each in told] == [0, 0, 0], told
    assert "late-flights" in told[0].out and len(told[1].out.splitlines()) == 3 and "demo" in told[2].out


@pytest.mark.nightly(tried="demos")
def test_a_temporary_store_is_removed_unless_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    outcome = run(*FEWER)
    assert outcome.status == 0
    assert list(tmp_path.glob("siltstone-demo-*")) == []
    assert commands_of(outcome)[0] == ["demo", "--store", "./siltstone-data"]
    assert run(*FEWER, "--keep").status == 0
    (kept,) = tmp_path.glob("siltstone-demo-*")
    assert run("check", "--store", kept).status == 0


def lost(flights: list[Flight]) -> list[Flight]:
    return flights[1:]


def doubled(flights: list[Flight]) -> list[Flight]:
    return [*flights, flights[-1]]


def altered(flights: list[Flight]) -> list[Flight]:
    return [msgspec.structs.replace(flights[0], line=flights[0].line[:-1]), *flights[1:]]


def disordered(flights: list[Flight]) -> list[Flight]:
    """Returns the flights with the first two flights of one plane exchanged."""
    first, second = next(
        (number, later)
        for number, flight in enumerate(flights)
        for later in range(number + 1, len(flights))
        if flights[later].tail_number == flight.tail_number
    )
    changed = list(flights)
    changed[first], changed[second] = flights[second], flights[first]
    return changed


@pytest.mark.parametrize(
    "wrong",
    [
        lost,
        *(
            pytest.param(each, marks=pytest.mark.nightly(tried="wrong records"))
            for each in (doubled, altered, disordered)
        ),
    ],
)
def test_any_record_that_differs_is_told_with_exit_status_1(
    wrong: Callable[[list[Flight]], list[Flight]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce = FlightProducer.produce
    calls = []

    def produce_wrong(self: FlightProducer, flights: list[Flight], on_progress) -> None:
        calls.append(len(flights))
        produce(self, wrong(flights) if len(calls) == 1 else flights, on_progress)

    monkeypatch.setattr(FlightProducer, "produce", produce_wrong)
    outcome = run(*FEWER, "--store", tmp_path / "store")
    assert outcome.status == 1
    assert "✗" in outcome.out and "instead of" in outcome.out
    assert "Try next" not in outcome.out and outcome.err == ""


def test_a_client_that_fails_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ClientFailed("confluent-kafka failed to consume: the broker is gone")

    monkeypatch.setattr(GroupReading, "read", refuse)
    outcome = run(*FEWER, "--store", tmp_path / "store")
    assert outcome.status == 1
    assert outcome.err == "siltstone: confluent-kafka failed to consume: the broker is gone\n"


def test_t35_a_folder_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert_one_line(run(*FEW, "--store", tmp_path), 2, "name another folder")
    assert (tmp_path / "file").read_text() == "mine"


def test_t35_no_flights_is_no_number() -> None:
    assert_one_line(run("demo", "--flights", "0"), 2, "--flights")
