import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from siltstone.console.confined import confined_matches, run_confined
from siltstone.console.confined_process import disk_bytes
from siltstone.console.confined_tasks import ProcessLimits
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.following import Found
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.limits import MIB
from siltstone.record_columns.arrow import ArrowMissing
from siltstone.scanning import duckdb_tables
from siltstone.scanning.duckdb_tables import QueryRefused
from siltstone.scanning.querying import QueryTable
from siltstone.scanning.where import WhereRefused

SECONDS_MAX = 60


class Planned:
    """A query with tables of this test, as ``PlannedQuery`` has those of a store."""

    def __init__(self, text: str, *tables: QueryTable, notes: tuple[str, ...] = ()) -> None:
        self.text = text
        self.notes = list(notes)
        self._tables = tables

    def tables(self) -> Iterator[QueryTable]:
        yield from self._tables

    def refusal(self, reason: str) -> QueryRefused:
        return QueryRefused(f"explained: {reason}")


def numbers(name: str, count: int, schema: str = "") -> QueryTable:
    table = pyarrow.table({"n": list(range(count))})
    return QueryTable(name, table.to_reader(max_chunksize=1000), schema)


def asked(text: str, *tables: QueryTable, rows_max: int = 100, **options: Any) -> Any:
    found: Any = Planned(text, *tables, notes=("a note",))
    return run_confined(
        found, seconds_max=options.pop("seconds_max", SECONDS_MAX), rows_max=rows_max, **options
    )


def records(*values: bytes) -> list[Found]:
    return [
        (TopicPartition("t", 1), Record(offset=number, timestamp_ms=0, key=None, value=value))
        for number, value in enumerate(values)
    ]


def test_rows_are_texts() -> None:
    found = asked(
        """select "a-b".n, {'x': [1]}, 'a'::blob, null from "a-b" join siltstone.u using (n) order by 1""",
        numbers("a-b", 5),
        numbers("u", 3, "siltstone"),
    )
    assert found.rows == [[str(n), '{"x":[1]}', "61", ""] for n in range(3)]
    assert found.columns[0] == "n" and found.notes == ("a note",)


def test_rows_and_cells_are_cut() -> None:
    found = asked("select repeat('x', 10) from t", numbers("t", 50), rows_max=7, cell_characters_max=4)
    assert found.rows == [["xxxx… (the first 4 of 10)"]] * 7


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("selec", "explained: Parser Error"),
        ("select * from nosuch", "explained: Catalog Error"),
        ("drop table t", "^DROP is not allowed"),
        ("", "^the query is empty"),
        ("select * from '/etc/hostname'", "explained: "),
        ("set memory_limit = '9GB'", "explained: .*locked"),
    ],
)
def test_what_is_wrong_is_said_whether_or_not_the_tables_were_read(text: str, says: str) -> None:
    with pytest.raises(QueryRefused, match=says):
        asked(text, numbers("t", 2_000_000))


def test_wc17_an_answer_has_a_limit_and_is_no_load_for_this_process() -> None:
    with pytest.raises(QueryRefused, match=r"more than 1\.0 MiB: choose fewer"):
        asked(
            "select repeat('x', 1000) from t", numbers("t", 9_000), rows_max=9_000,
            limits=ProcessLimits(answer_bytes_max=MIB),
        )  # fmt: skip


def test_wc17_a_query_is_ended_when_its_time_is_over() -> None:
    with pytest.raises(QueryRefused, match=r"takes more than 1\.0 s"):
        asked(
            "select count(*) from range(1000000000) a, range(1000000000) b where hash(a.range) = hash(b.range + 1)",
            seconds_max=1,
        )


def test_wc17_a_process_has_no_more_memory_than_its_limit_whatever_duckdb_believes() -> None:
    """The sort below fits the memory that DuckDB is given here, and not that of the process."""
    limits = ProcessLimits(memory_bytes=8_000 * MIB, process_bytes_max=300 * MIB)
    with pytest.raises(QueryRefused, match=r"(?i)memory"):
        asked(
            "select range, hash(range) from range(50000000) order by 2 limit 1 offset 49999999", limits=limits
        )


def test_wc17_the_process_gets_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "planted")
    given: list[dict[str, str]] = []
    started = subprocess.Popen

    def noted(*args: Any, env: dict[str, str], **options: Any) -> Any:
        given.append(env)
        return started(*args, env=env, **options)

    monkeypatch.setattr(subprocess, "Popen", noted)
    assert asked("select 1").rows == [["1"]]
    assert "planted" not in str(given) and "PATH" in given[0]


def test_a_process_that_ends_without_an_answer_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(QueryRefused, match="takes more memory"):
        asked("select 1", numbers("t", 2_000_000))


def test_a_condition_chooses_records() -> None:
    found = records(b'{"a":1}', b'{"a":2}', b"none")
    assert confined_matches("a > 1", found, name="the condition", seconds_max=SECONDS_MAX) == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("condition", "seconds_max", "says"),
    [
        ("a >", SECONDS_MAX, "^the condition a >: "),
        ("(select count(*) from range(1000000000) a, range(1000000000) b where hash(a) = hash(b)) > a", 2,
         r"takes more than 2\.0 s"),
    ],
)  # fmt: skip
def test_wc17_a_condition_is_refused_or_ended(condition: str, seconds_max: float, says: str) -> None:
    with pytest.raises(WhereRefused, match=says):
        confined_matches(condition, records(b'{"a":1}'), name="the condition", seconds_max=seconds_max)


def test_wc17_a_query_leaves_room_on_the_disk(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    assert disk_bytes(ProcessLimits(disk_bytes_max=MIB), str(tmp_path)) == MIB
    assert disk_bytes(ProcessLimits(disk_bytes_max=1 << 60), str(tmp_path)) <= free // 3


def test_without_duckdb_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb_tables, "find_spec", lambda _: None)
    with pytest.raises(ArrowMissing, match=r"siltstone\[sql\]"):
        asked("select 1")


def children() -> set[str]:
    """The processes that this one has started, also those that have ended and that nobody has waited for."""
    return {each for file in Path("/proc/self/task").glob("*/children") for each in file.read_text().split()}


def test_nothing_is_left_behind() -> None:
    before = children()
    asked("select 1")
    assert children() <= before
