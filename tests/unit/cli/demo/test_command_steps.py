"""The demo from its title to the commands that it proposes, with stand-ins for broker, client and maintenance: the
order of the steps, the text of each, and that a step which went wrong decides the exit status."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from siltstone.carrying.pipeline.kind import Outcome, UnitReport
from siltstone.cli.demo import command
from siltstone.cli.demo.figures import Figures, HeldBytes
from siltstone.cli.demo.flights import DECEMBER_MS, FLIGHTS_TOPIC, LATE_TOPIC, Flight
from siltstone.cli.demo.verifying import Mismatch, Sent, Verification
from siltstone.maintenance.checking.findings import CheckReport, Finding, FindingKind
from siltstone.model.objects import ObjectState
from siltstone.server.settings.node import load_node_settings
from support.processes.cli import Outcome as Exit
from support.processes.cli import run

FLIGHTS = [
    Flight(DECEMBER_MS - 2, b"N1", False, b"a"),
    Flight(DECEMBER_MS - 1, b"N2", True, b"b"),
    Flight(DECEMBER_MS, b"N1", False, b"c"),
]
BEFORE = Figures(3, 0, 2_048, 6, {"flights-3": 3, "late-flights-0": 3}, {"flights-3": 7, "late-flights-0": 4})
AFTER = Figures(0, 1, 1_024, 1, {"flights-3": 1, "late-flights-0": 1}, {"flights-3": 2, "late-flights-0": 4})
DETAIL = {"tasks": "2", "read requests": "5", "write requests": "1"}
DONE = UnitReport(
    name="objects", outcome=Outcome.DONE, text="", objects_before=3, objects_after=1, bytes_read=2_048,
    bytes_written=1_024, peak_memory_bytes=4_096, detail=DETAIL,
)  # fmt: skip
MISMATCHES = [Mismatch(FLIGHTS_TOPIC, "N1", number, Sent(DECEMBER_MS, b"c"), None) for number in range(7)]


class Play:
    """Notes the steps of the demo in order; ``wrong`` is the step that fails."""

    def __init__(self, patch: pytest.MonkeyPatch, tmp_path: Path, wrong: str) -> None:
        self.acts: list[Any] = []
        self.wrong = wrong
        self.figures = iter((BEFORE, AFTER))
        settings = load_node_settings(tmp_path, environment={})
        stand_ins: dict[str, Any] = {
            "flights_file": lambda: tmp_path, "refuse_without_client": lambda: None,
            "read_flights": lambda _file, count: FLIGHTS[:count], "write_settings": lambda *_: settings,
            "load_node_settings": lambda *_, **__: settings, "open_store": self.open_store, "Broker": self.broker,
            "create_topics": lambda *asked: self.acts.append(asked[1:]), "batch_bytes": lambda _: 7,
            "FlightProducer": lambda *_: self, "busiest_and_quiet": lambda _: {"flights-3": 1},
            "measure": lambda *_: next(self.figures), "Trickle": self.trickle,
            "held": lambda _, step: self.acts.append(step) or HeldBytes(step, 1, 1_024, 2_048),
            "maintain": lambda _, kinds, *__: self.acts.append(kinds) or ([DONE], wrong != "compaction"),
            "GroupReading": lambda *_: SimpleNamespace(read=self.read), "verify": self.verify,
            "keep_newest": self.step("key compaction"), "drop_old": self.step("retention"),
            "collect": self.step("garbage collection"), "check": self.check, "table": self,
        }  # fmt: skip
        for name, stand_in in stand_ins.items():
            patch.setattr(command, name, stand_in)

    CONFIGS: ClassVar = {"siltstone.table.format": "iceberg"}
    """From here on this module stands in for the module ``table``."""

    def has_what_it_needs(self) -> bool:
        return self.wrong != "no extra"

    def append(self, _stage: object) -> bool:
        self.acts.append("append")
        return self.wrong != "append"

    def query(self, _stage: object, spark_sql: object) -> bool:
        assert spark_sql is None, "the runner is this process"
        self.acts.append("query")
        return self.wrong != "query"

    def step(self, name: str) -> Callable[[object], bool]:
        return lambda _: self.wrong != name

    @contextmanager
    def broker(self, _folder: Path) -> Iterator[Any]:
        self.acts.append("start")
        yield SimpleNamespace(bootstrap_servers="127.0.0.1:9", flush=lambda: self.acts.append("flush"))
        self.acts.append("stop")

    @contextmanager
    def open_store(self, _settings: object) -> Iterator[Any]:
        objects = {
            number: SimpleNamespace(object_id=number, state=state)
            for number, state in ((7, ObjectState.COMMITTED), (9, ObjectState.DESTROYED))
        }
        image = SimpleNamespace(objects=objects, destroyed={9: None} if self.wrong != "nothing waits" else {})
        yield SimpleNamespace(metadata=SimpleNamespace(image=image), context=None)

    def produce(self, flights: list[Flight], _: object) -> None:
        self.acts.append([flight.line for flight in flights])

    acknowledged = 2

    def trickle(self, _producer: object, flights: list[Flight], _clock: object) -> Any:
        self.acts.append([flight.line for flight in flights])

        def raise_failure() -> None:
            if self.wrong == "trickle":
                raise RuntimeError("December is lost")

        return SimpleNamespace(
            run=lambda: None,
            hurry=lambda: self.acts.append("hurry"),
            raise_failure=raise_failure,
            slowest_seconds=0.25,
            days_done=1,
        )

    def read(self, members: int, _: object) -> list[object]:
        self.acts.append(members)
        return [object()] * 4

    def verify(self, flights: object, consumed: list[object]) -> Verification:
        assert flights is FLIGHTS or flights == FLIGHTS
        return Verification(3, 4, MISMATCHES if self.wrong == "consuming" else [])

    def check(self, _context: object) -> CheckReport:
        findings = (Finding(FindingKind.OBJECT_MISSING, "gone"),) if self.wrong == "check" else ()
        return CheckReport(findings, 9, 9, 5, 9)


def played(tmp_path: Path, wrong: str = "", *words: str) -> tuple[Exit, list[Any]]:
    with pytest.MonkeyPatch.context() as patch:
        play = Play(patch, tmp_path, wrong)
        return run("demo", "--runner", "in-process", *words), play.acts


def test_the_steps_in_their_order(tmp_path: Path) -> None:
    outcome, acts = played(tmp_path)
    assert outcome.status == 0
    kept = {**command.CONFIGS, FLIGHTS_TOPIC: {**command.CONFIGS[FLIGHTS_TOPIC], **Play.CONFIGS}}
    assert acts == [
        "start", ({FLIGHTS_TOPIC: 8, LATE_TOPIC: 1}, kept), [b"a", b"b"], "flush", "upload", [b"c"],
        ["sso-compaction"], "append", "hurry", "flush", "append", "compaction", 2, "key compaction", "retention",
        "stop", "garbage collection", "query",
    ]  # fmt: skip
    assert "siltstone tables --store" in outcome.out


def test_without_the_packages_for_tables_one_line_says_so_and_all_else_is_shown(tmp_path: Path) -> None:
    outcome, acts = played(tmp_path, "no extra")
    assert outcome.status == 0 and outcome.words.count("no Iceberg table: pip install 'siltstone[demo]'") == 1
    assert "append" not in acts and "query" not in acts and "siltstone tables" not in outcome.out
    assert ({FLIGHTS_TOPIC: 8, LATE_TOPIC: 1}, command.CONFIGS) in acts


def test_what_each_step_tells(tmp_path: Path) -> None:
    outcome, _ = played(tmp_path)
    text = " ".join(outcome.out.split())
    for told in (
        "3 flights of 2 planes, 1 of them three hours late or more",
        "a Kafka broker listens on 127.0.0.1:9",
        "2 records acknowledged in",
        "3 stream set objects, 6 index entries, 2.0 KiB",
        "1 stream object, 1 index entry, 1.0 KiB",
        "7 GETs to read all of partition flights-3",
        "3 objects became 1 in 2 tasks",
        "2.0 KiB read in 5 requests, 1.0 KiB written in 1",
        "peak memory of a process that ran a task: 4.0 KiB",
        "December was produced: 1 flight, one day at a time, each acknowledged within 250 ms",
        "Consume all records with a group of 2 consumers",
        "4 records consumed in",
        "✓ 3 of 4 records equal their source",
        "siltstone check: clean, 5 checksums verified",
        "1 replaced object will be deleted by siltstone maintain sweep",
        "What each step changed",
        "Try next",
    ):
        assert told in text, told
    assert "✗" not in text and "0 stream" not in text
    assert "will be deleted" not in played(tmp_path, "nothing waits")[0].out


@pytest.mark.parametrize(
    "wrong",
    [
        "compaction",
        "append",
        "consuming",
        "key compaction",
        "retention",
        "garbage collection",
        "check",
        "query",
    ],
)
def test_a_step_that_goes_wrong_is_the_exit_status_and_the_others_are_shown_all_the_same(
    wrong: str, tmp_path: Path
) -> None:
    outcome, acts = played(tmp_path, wrong)
    assert outcome.status == 1
    assert "What each step changed" in outcome.out and "Try next" not in outcome.out
    assert acts[-2:] == ["garbage collection", "query"]
    assert outcome.out.count("instead of nothing") == 0
    assert outcome.out.count("nothing instead of") == (5 if wrong == "consuming" else 0), "not all of seven"
    assert ("✗" in outcome.out) is (wrong in ("consuming", "check"))


def test_a_december_that_could_not_be_produced_ends_the_demo(tmp_path: Path) -> None:
    outcome, acts = played(tmp_path, "trickle")
    assert outcome.status != 0 and "December is lost" in outcome.err
    assert acts[-1] == "hurry", "the broker is not flushed for figures that would be wrong"


def test_a_store_that_is_kept_is_what_to_look_into_next(tmp_path: Path) -> None:
    store = tmp_path / "store"
    kept, _ = played(tmp_path, "", "--store", str(store))
    assert f"$ siltstone inspect 7 --blocks --store {store}" in kept.out, (
        "the newest object that is committed"
    )
    assert f"$ siltstone serve --store {store}" in kept.out and "to keep one" not in kept.out
    gone, _ = played(tmp_path)
    assert "$ siltstone demo --store ./siltstone-data" in gone.out and "inspect" not in gone.out
    for text in (kept.out, gone.out):
        assert (
            text.index("siltstone streams")
            < text.index("siltstone check --store")
            < text.index("sweep --store")
        )
        assert "$ siltstone tail late-flights --last 3 --until-end" in text
