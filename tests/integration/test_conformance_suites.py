"""Other people's suites: what is read in the output of each kind of runner, and the table of the page."""

from pathlib import Path

import pytest

from conformance.suites.known import BY_ID, KNOWN
from conformance.suites.page import BEGIN, END, write_suites
from conformance.suites.running import run_suite
from conformance.suites.suite import SuiteOutcome, counted

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
OUTPUTS = {
    "aiokafka": ("PASSED tests/t.py::A::one\nFAILED tests/t.py::A::two - no\nERROR tests/t.py::three\n", 1, 2),
    "kafkajs": ("  Broker\n    ✓ request (7ms)\n    ✕ throws for a wrong id (1037ms)\n", 1, 1),
    "platformatic": ("# Subtest: a\nok 1 - a\n  ---\nnot ok 2 - b\n", 1, 1),
    "librdkafka": ("|\x1b[32m <MAIN>   | PASSED |\n|\x1b[32m 0103_transactions   |     PASSED |   9 s\n"
                   "|\x1b[36m 0098_consumer_txn    |    SKIPPED |\n", 1, 1),
    "franz-go": ("=== RUN   TestTxnEtl\n    --- PASS: TestTxnEtl/range (3.1s)\n--- FAIL: TestTxnEtl (4s)\n", 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("suite", OUTPUTS)
def test_each_runner_says_in_its_way_what_passed(suite: str) -> None:
    output, passed, failed = OUTPUTS[suite]
    assert len(counted(BY_ID[suite].passed, output)) == passed
    assert len(counted(BY_ID[suite].failed, output)) == failed


def test_a_suite_without_its_sources_is_not_run_and_says_where_they_belong(tmp_path: Path) -> None:
    outcome = run_suite(BY_ID["aiokafka"], pytest.fail, tmp_path)  # type: ignore[arg-type]
    assert outcome.missing == "no clone of aio-libs/aiokafka in .build/suites/aiokafka"


def test_the_page_keeps_the_rows_of_suites_that_were_not_asked_for(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\n{END}\nafter\n")
    write_suites([SuiteOutcome("aiokafka", "abcd1234", 20)], page)
    reason = "ignores invalid transaction fields"
    write_suites([SuiteOutcome("kafkajs", "ef", 16, (reason, "throws"))], page)
    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    (ours,) = [line for line in lines if line.startswith("| aiokafka")]
    assert ours.endswith("| abcd1234 | 20 | 0 |")
    (theirs,) = [line for line in lines if line.startswith("| kafkajs")]
    assert f"{reason}: Apache Kafka" in theirs and theirs.endswith("FAILS: throws |")


@pytest.mark.parametrize("suite", KNOWN, ids=lambda suite: suite.id)
def test_every_suite_is_on_the_page(suite: object) -> None:
    assert f"\n| {suite.title} |" in PAGE.read_text()  # type: ignore[attr-defined]
    assert "FAILS" not in PAGE.read_text().partition(BEGIN)[2]
