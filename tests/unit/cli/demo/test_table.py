"""The question that the demo asks of its table: two engines and a plain count give one answer."""

import threading
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from siltstone.cli.demo import table
from siltstone.cli.demo.flights import Flight
from siltstone.runtime.clock import ManualClock
from siltstone.topic_configs.table import parse_topic_configs

FIELDS = 19


def flight(carrier: str, delay: str) -> Flight:
    fields = ["0"] * FIELDS
    fields[table.CARRIER], fields[table.DELAY] = carrier, delay
    return Flight(0, b"N1", False, ",".join(fields).encode())


FLIGHTS = [flight("UA", "12"), flight("UA", "-3"), flight("AA", "NA"), flight("UA", "NA"), flight("B6", "7")]


def test_the_source_is_counted_by_carrier_and_flights_without_a_delay_add_none() -> None:
    assert table.answer_of(FLIGHTS) == {"UA": (3, 9), "AA": (1, 0), "B6": (1, 7)}


def test_duckdb_gives_the_same_answer_over_all_files(tmp_path: Path) -> None:
    files = []
    for number, part in enumerate((FLIGHTS[:2], FLIGHTS[2:])):
        file = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"value": [each.line.decode() for each in part]}), file)
        files.append(file.as_uri())
    assert table.by_duckdb(files) == table.answer_of(FLIGHTS)
    assert table.by_duckdb(files[:1]) != table.answer_of(FLIGHTS)


def test_the_chart_shows_the_carriers_with_most_flights_in_80_columns() -> None:
    answer = {f"C{number}": (1_000_000 - number, 10_000_000) for number in range(9)}
    console = Console(width=77, record=True)
    console.print(table.carriers_chart(answer))
    lines = console.export_text().splitlines()
    assert len(lines) == 1 + table.CARRIERS_SHOWN_MAX and all(len(line.rstrip()) <= 77 for line in lines)
    assert lines[1].split()[0] == "C0" and "10.0 min on average" in lines[1] and "1,000,000" in lines[1]


def test_the_configurations_are_ones_that_a_topic_can_have() -> None:
    assert parse_topic_configs(table.CONFIGS).table.table_format == "iceberg"


def test_spark_is_warmed_up_with_the_question_and_an_error_waits_for_who_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[str]] = []

    def fails(files: list[str]) -> table.Answer:
        asked.append(files)
        raise OSError("the JVM has died")

    monkeypatch.setattr(table, "_files", lambda _: ["file:///a"])
    monkeypatch.setattr(table, "by_spark", fails)
    spark_sql = table.SparkQuery()
    stage: Any = None
    spark_sql.warm_up(stage)
    with pytest.raises(OSError, match="the JVM has died"):
        spark_sql.ask(["file:///b"])
    assert asked == [["file:///a"], ["file:///b"]], "one after the other"


def test_the_query_waits_for_the_one_that_warms_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once would start two Spark sessions."""
    under_way, may_end, asked = Event(), Event(), []

    def by_spark(files: Sequence[str]) -> dict[str, Any]:
        asked.append(threading.current_thread().name)
        under_way.set()
        assert may_end.wait(60)
        return {}

    monkeypatch.setattr(table, "by_spark", by_spark)
    monkeypatch.setattr(table, "_files", lambda _: [])
    spark_sql = table.SparkQuery()
    spark_sql.warm_up(SimpleNamespace())
    asking = Thread(target=spark_sql.ask, args=([],), name="asks", daemon=True)
    assert under_way.wait(60)
    asking.start()
    asking.join(0.2)
    assert asked == ["demo-spark-sql"]
    may_end.set()
    asking.join(60)
    assert asked == ["demo-spark-sql", "asks"]


def test_the_demo_waits_for_the_packages_that_make_is_installing(tmp_path: Path) -> None:
    clock = ManualClock()
    began_ms = clock.monotonic_ms()
    table.await_packages(tmp_path, clock)
    assert clock.monotonic_ms() == began_ms, "they are there"
    table.await_packages(tmp_path / "missing", clock)
    assert clock.monotonic_ms() - began_ms == table.INSTALL_MAX_MS, (
        "an installation that failed ends the wait"
    )


def test_a_table_without_rows_is_wrong_and_no_engine_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    story = SimpleNamespace(step=lambda _: None, wrong=said.append)
    monkeypatch.setattr(table, "_files", lambda _: [])
    assert not table.query(SimpleNamespace(story=story), None)  # type: ignore[arg-type]
    assert said == ["the table has no rows: the exports above failed"]
