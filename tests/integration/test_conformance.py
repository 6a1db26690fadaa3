"""The client matrix itself: what becomes of a driver that hangs, crashes, refuses or asks, and the page."""

import re
import sys
import time
from pathlib import Path

import psutil
import pytest

from conformance import report
from conformance.clients import CLIENTS
from conformance.driving import Driver
from conformance.exchange import CODECS
from conformance.features import BY_ID, FEATURES, TOOLS, Feature
from conformance.outcome import REFUSAL_SECONDS_MAX, Outcome, Result, is_expected, refusal
from conformance.report import BEGIN, END, Matrix, markdown, write
from conformance.secured import PROTOCOLS, WAYS, new_grounds, settings_of_siltstone
from conformance.trying import Trial

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
DRIVER = """
import json, subprocess, sys, time
def say(**message): print(json.dumps(message), flush=True)
for line in iter(sys.stdin.readline, ""):
    match json.loads(line)["feature"]:
        case "hang":
            child = subprocess.Popen(["sleep", "60"])
            open(sys.argv[1], "w").write(str(child.pid))
            time.sleep(60)
        case "crash":
            sys.exit("out of everything")
        case "refuse":
            say(outcome="refused", detail="NO_SUCH_THING of NAME-7 at HOST:1")
        case "ask":
            say(ask="number")
            told = json.loads(sys.stdin.readline())
            say(outcome="failed" if "error" in told else "works", detail=str(told))
        case other:
            say(outcome="works", detail=other)
"""


class StageOfNumbers:
    def __init__(self, number: int | None = 7) -> None:
        self._number = number

    def answer(self, asked: dict[str, object]) -> int:
        assert asked == {"ask": "number"}
        if self._number is None:
            raise ValueError("no number")
        return self._number


@pytest.fixture
def driver(tmp_path: Path):
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    made = Driver([sys.executable, str(script), str(tmp_path / "child")], {}, tmp_path / "log")
    yield made
    made.close()


def tried(driver: Driver, feature: str, stage: object = None, needs: frozenset[int] = frozenset()) -> Result:
    trial = Trial("HOST:1", stage or StageOfNumbers(), announced=frozenset({3}))  # type: ignore[arg-type]
    seconds = 3 if feature == "hang" else 60
    return trial.try_feature("client", driver, Feature(feature, "", "", seconds, needs), "NAME-7")


def test_one_process_serves_one_feature_after_the_other(driver: Driver) -> None:
    assert [tried(driver, name).outcome for name in ("first", "second")] == [Outcome.WORKS] * 2
    assert tried(driver, "third").detail == "third"


def has_life(process_id: int) -> bool:
    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_driver_that_says_nothing_is_killed_with_its_children(driver: Driver, tmp_path: Path) -> None:
    assert tried(driver, "first").outcome is Outcome.WORKS, "it has started"
    result = tried(driver, "hang")
    assert result.outcome is Outcome.HANGS and result.detail == "nothing within 3 s"
    child = int((tmp_path / "child").read_text())
    give_up = time.monotonic() + 60
    while has_life(child):
        assert time.monotonic() < give_up, "the child outlives the driver that was killed"
        time.sleep(0.01)
    assert tried(driver, "next").outcome is Outcome.WORKS


def test_a_driver_that_ends_is_named_with_its_last_words(driver: Driver) -> None:
    result = tried(driver, "crash")
    assert result.outcome is Outcome.CRASHES
    assert "ended with 1" in result.detail and "out of everything" in result.detail
    assert tried(driver, "next").outcome is Outcome.WORKS


@pytest.mark.parametrize(("needs", "outcome"), [({3}, Outcome.REFUSED), ({24}, Outcome.NOT_ANNOUNCED)])
def test_a_refusal_is_told_apart_by_what_is_announced(
    driver: Driver, needs: set[int], outcome: Outcome
) -> None:
    result = tried(driver, "refuse", needs=frozenset(needs))
    assert result.outcome is outcome
    assert result.detail == "NO_SUCH_THING of NAME at HOST:PORT"


def test_a_slow_refusal_is_a_hang() -> None:
    assert refusal(BY_ID["plain"], frozenset(), REFUSAL_SECONDS_MAX + 1) is Outcome.HANGS


def test_a_question_is_answered(driver: Driver) -> None:
    assert tried(driver, "ask").outcome is Outcome.WORKS
    failed = tried(driver, "ask", StageOfNumbers(None))
    assert failed.outcome is Outcome.FAILS and "ValueError: no number" in failed.detail


@pytest.mark.parametrize(
    ("feature", "outcome", "on_siltstone", "on_kafka"),
    [
        ("plain", Outcome.WORKS, True, True),
        ("plain", Outcome.REFUSED, False, False),
        ("plain", Outcome.HANGS, False, False),
        ("plain", Outcome.CLIENT_LACKS_IT, True, True),
        ("kip848", Outcome.NOT_ANNOUNCED, False, False),
        ("kip848", Outcome.WORKS, True, True),
        ("kip848", Outcome.HANGS, False, False),
        ("transactions", Outcome.WORKS, True, True),
        ("transactions", Outcome.NOT_ANNOUNCED, False, False),
    ],
)
def test_what_is_expected(feature: str, outcome: Outcome, on_siltstone: bool, on_kafka: bool) -> None:
    result = Result("client", feature, outcome)
    assert (is_expected(result, "siltstone"), is_expected(result, "apache-kafka")) == (on_siltstone, on_kafka)


MATRIX = Matrix(
    {"confluent": "1.0", "kcat": ""},
    (
        Result("confluent", "plain", Outcome.WORKS),
        Result("confluent", "transactions", Outcome.REFUSED, "no | never"),
        Result("kcat", "plain", Outcome.WORKS, "in part"),
        Result("kcat", "transactions", Outcome.CLIENT_LACKS_IT, "in part"),
    ),
    (Result("kcat", "confluent", Outcome.FAILS, "in part"), Result("confluent", "confluent", Outcome.WORKS)),
)


def test_the_markdown_has_a_note_for_each_thing_that_was_said() -> None:
    text = markdown(MATRIX)
    assert "Clients: confluent-kafka 1.0." in text
    assert f"| {BY_ID['plain'].title} | works | works (1) |" in text
    assert f"| {BY_ID['transactions'].title} | refused (2) | – (1) |" in text
    assert "| confluent-kafka | FAILS (1) | works |" in text
    assert "1. in part" in text and "2. no \\| never" in text


def test_the_page_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(MATRIX, page)
    write(MATRIX, page)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith(f"{END}\nafter\n")
    assert "old" not in text and text.count("### Producing") == 1


@pytest.mark.parametrize("feature", (*FEATURES, *TOOLS), ids=lambda feature: feature.id)
def test_every_feature_is_on_the_page(feature: Feature) -> None:
    columns = [client for client in CLIENTS if feature in client.features]
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {feature.title} |")]
    cells = [cell.strip() for cell in row.strip("|").split("|")[1:]]
    marks = "|".join(map(re.escape, report.MARKS.values()))
    assert len(cells) == len(columns)
    assert all(re.fullmatch(rf"(?:{marks})(?: \(\d+\))?", cell) for cell in cells), row


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_python_driver_has_a_scenario_or_a_reason_for_each_feature() -> None:
    from conformance.drivers.aiokafka_driver import admin as a4
    from conformance.drivers.aiokafka_driver import groups as a3
    from conformance.drivers.aiokafka_driver import producing as a1
    from conformance.drivers.aiokafka_driver import reading as a2
    from conformance.drivers.aiokafka_driver import secured as a5
    from conformance.drivers.confluent import admin as c4
    from conformance.drivers.confluent import groups as c3
    from conformance.drivers.confluent import producing as c1
    from conformance.drivers.confluent import reading as c2
    from conformance.drivers.confluent import secured as c5
    from conformance.drivers.java import admin as j4
    from conformance.drivers.java import groups as j3
    from conformance.drivers.java import producing as j1
    from conformance.drivers.java import reading as j2
    from conformance.drivers.java import secured as j5
    from conformance.drivers.kafka_python import admin as k4
    from conformance.drivers.kafka_python import groups as k3
    from conformance.drivers.kafka_python import producing as k1
    from conformance.drivers.kafka_python import reading as k2
    from conformance.drivers.kafka_python import secured as k5
    from conformance.drivers.kafka_tools import scenarios as tools
    from conformance.drivers.kcat import groups as q3
    from conformance.drivers.kcat import producing as q1
    from conformance.drivers.kcat import reading as q2
    from conformance.drivers.kcat import secured as q5

    wanted = {feature.id for feature in FEATURES}
    exchange = {"exchange_write", "exchange_read"}
    drivers = (
        (c1, c2, c3, c4, c5), (q1, q2, q3, q5), (k1, k2, k3, k4, k5), (a1, a2, a3, a4, a5), (j1, j2, j3, j4, j5),
    )  # fmt: skip
    for modules in drivers:
        scenarios = {name for module in modules for name in module.SCENARIOS}
        lacks = {name for module in modules for name in getattr(module, "LACKS", ())}
        assert scenarios | lacks == wanted | exchange, modules[0].__name__
        assert scenarios & lacks == set()
    assert set(tools.SCENARIOS) == {feature.id for feature in TOOLS}


def test_each_secured_feature_has_a_way_in_and_its_secrets_are_those_of_the_way(tmp_path: Path) -> None:
    assert set(WAYS) == {feature.id for feature in (*FEATURES, *TOOLS) if feature.secured}
    grounds = new_grounds(tmp_path)
    assert grounds.access("tls").key == grounds.access("tls").token == ""
    assert Path(grounds.access("mutual_tls").key).exists()
    assert grounds.access("oauthbearer").token and not grounds.access("oauthbearer").password
    assert grounds.access("wrong_password").password != grounds.access("sasl_plain").password
    assert {name.partition(".")[2].partition(".")[0] for name in settings_of_siltstone(grounds)} == set(
        PROTOCOLS
    )


def test_drivers_and_judge_mean_the_same_codecs() -> None:
    from conformance.drivers import exchange

    assert exchange.CODECS == CODECS
