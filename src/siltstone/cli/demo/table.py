"""Keeps the flights of the demo as an Iceberg table. Flights are appended to the table while December is produced. At
the end, when the topic has only the newest flight of each plane, Spark SQL and DuckDB ask the table the same question.

Both engines read the data files that the table lists, and get the same text of SQL. Their answers are compared with one
that is counted from the source.
"""

import csv
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

from rich.bar import Bar
from rich.table import Table

import siltstone
from siltstone.carrying.pipeline.kind import Outcome, Scope
from siltstone.cli.demo.flights import FLIGHTS_TOPIC, NO_DELAY, Flight
from siltstone.cli.demo.maintaining import maintain
from siltstone.cli.demo.stage import Stage
from siltstone.cli.words import counted, seconds_words, size_words
from siltstone.offline.opening.store import open_store
from siltstone.runtime.clock import Clock
from siltstone.tables.inspecting import file_urls, opened_table, table_rows
from siltstone.tables.kind import TABLE_EXPORT

CONFIGS = {
    "siltstone.table.format": "iceberg",
    "siltstone.table.value": "string",
    "siltstone.table.partition.by": "month(timestamp)",
}
"""A value is one line of CSV, which both engines split into fields by themselves. The table has a file for each
month."""

CARRIER, DELAY = 9, 5
"""Fields of a line, from 0 on."""

QUERY = f"""
SELECT split_part(value, ',', {CARRIER + 1}) AS carrier, count(*) AS flights,
  sum(try_cast(split_part(value, ',', {DELAY + 1}) AS int)) AS minutes
FROM flights GROUP BY 1
"""  # noqa: S608  no text of a user
"""How many flights each carrier had, and by how many minutes they left late, as SQL of both engines."""

FOR_LITTLE_DATA = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false"}

CARRIERS_SHOWN_MAX = 5
INSTALL_MAX_MS = 300_000
_NEEDED = ("pyiceberg", "sqlalchemy", "pyarrow", "duckdb")

Answer = dict[str, tuple[int, int]]
"""Carrier → its flights, and the sum of their delays in minutes."""


def has_what_it_needs() -> bool:
    """Returns whether the packages of the extra ``demo`` that tables need are installed."""
    return all(find_spec(name) is not None for name in _NEEDED)


def await_packages(installed: Path, clock: Clock) -> None:
    """Waits until ``installed`` exists: make installs the packages of tables while the demo's first steps run. After
    five minutes the steps of the table say themselves what is missing."""
    deadline_ms = clock.monotonic_ms() + INSTALL_MAX_MS
    while not installed.exists() and clock.monotonic_ms() < deadline_ms:
        clock.block_ms(100)
    invalidate_caches()  # this process has listed the packages before these came


def append(stage: Stage) -> bool:
    """Appends the flights that are in objects and not in the table yet. Returns whether that succeeded."""
    began_ms = stage.clock.monotonic_ms()
    reports, is_right = maintain(
        stage, [TABLE_EXPORT], Scope(topics=frozenset([FLIGHTS_TOPIC]), is_forced=True), "appending"
    )
    seconds = (stage.clock.monotonic_ms() - began_ms) / 1000
    with open_store(stage.settings) as store:
        (row,) = table_rows(store.metadata.image)
    for report in reports:
        if report.outcome is Outcome.DONE:
            stage.story.done(f"{row.table} has {counted(row.rows, 'row')} after {seconds_words(seconds)}: "
                             f"{size_words(report.bytes_written)} of Parquet, one commit")  # fmt: skip
    return is_right


class SparkQuery:
    """Spark SQL over the table. The first query of a Spark session takes seconds, most of them for loading and
    compiling code, so a thread runs the same query once while the demo continues."""

    def __init__(self) -> None:
        self._warming: Thread | None = None

    def warm_up(self, stage: Stage) -> None:
        files = _files(stage)

        def ask() -> None:
            with suppress(Exception):  # the same query at the end of the demo raises it
                by_spark(files)

        self._warming = Thread(target=ask, name="demo-spark-sql", daemon=True)
        self._warming.start()

    def ask(self, files: Sequence[str]) -> Answer:
        if self._warming is not None:
            self._warming.join()
        return by_spark(files)


def query(stage: Stage, spark_sql: SparkQuery | None) -> bool:
    """Asks the engines and the source. Returns whether all answers are equal."""
    story = stage.story
    story.step("The whole year in the Iceberg table, though the topic was compacted")
    files = _files(stage)
    if not files:
        story.wrong("the table has no rows: the exports above failed")
        return False
    expected = answer_of(stage.flights)
    engines: dict[str, Callable[[Sequence[str]], Answer]] = {"DuckDB": by_duckdb}
    if spark_sql is not None:
        engines = {"Spark SQL": spark_sql.ask, **engines}
    is_right = True
    for name, ask in engines.items():
        began_ms = stage.clock.monotonic_ms()
        answer = ask(files)
        seconds = (stage.clock.monotonic_ms() - began_ms) / 1000
        same = sum(answer.get(carrier) == counts for carrier, counts in expected.items())
        is_same = answer == expected
        is_right &= is_same
        tell = story.done if is_same else story.wrong
        tell(f"{name} counted {sum(flights for flights, _ in answer.values()):,} flights in "
             f"{seconds_words(seconds)}: {same} of {counted(len(expected), 'carrier')} as in the source")  # fmt: skip
    story.show(carriers_chart(expected))
    return is_right


def _files(stage: Stage) -> list[str]:
    with (
        open_store(stage.settings) as store,
        opened_table(store.context, store.kind_settings.tables, FLIGHTS_TOPIC) as table,
    ):
        return file_urls(table, store.kind_settings.tables)


def answer_of(flights: Sequence[Flight]) -> Answer:
    """Counts the answer from the source."""
    found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for fields in csv.reader(flight.line.decode() for flight in flights):
        counts = found[fields[CARRIER]]
        counts[0] += 1
        counts[1] += 0 if fields[DELAY] == NO_DELAY else int(fields[DELAY])
    return {carrier: (count, minutes) for carrier, (count, minutes) in found.items()}


def by_spark(files: Sequence[str]) -> Answer:
    """Asks the Spark session of this process. The query is given the schema of the files, which Spark would take
    seconds to infer, and settings for little data."""
    spark = siltstone.spark.session()
    for name, value in FOR_LITTLE_DATA.items():
        spark.conf.set(name, value)
    spark.read.schema("value string").parquet(*files).createOrReplaceTempView("flights")
    with siltstone.spark.named("SQL over the flights of 2013"):
        return _answer(spark.sql(QUERY).collect())


def by_duckdb(files: Sequence[str]) -> Answer:
    import duckdb  # noqa: PLC0415  of the extra, and loaded for this step only

    with duckdb.connect() as connection:
        connection.read_parquet([each.removeprefix("file://") for each in files]).create_view("flights")
        return _answer(connection.execute(QUERY).fetchall())


def _answer(rows: Sequence[Any]) -> Answer:
    """Makes an answer of rows. In SQL the sum of a carrier none of whose flights has a delay is null."""
    return {carrier: (flights, minutes or 0) for carrier, flights, minutes in rows}


def carriers_chart(answer: Answer) -> Table:
    """Draws a bar for each of the carriers with most flights, and their mean delay."""
    made = Table.grid(padding=(0, 1))
    for width, justify in ((9, "left"), (30, "left"), (9, "right"), (20, "right")):
        made.add_column(width=width, justify=justify)  # type: ignore[arg-type]
    made.add_row("carrier", "", "flights", "left late by", style="dim")
    most = sorted(answer.items(), key=lambda each: -each[1][0])[:CARRIERS_SHOWN_MAX]
    for carrier, (flights, minutes) in most:
        bar = Bar(most[0][1][0], 0, flights, width=30, color="green")
        made.add_row(carrier, bar, f"{flights:,}", f"{minutes / flights:.1f} min on average")
    return made
