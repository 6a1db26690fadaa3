"""Runs what visitors write in SQL in a process of its own, which is ended when it takes too much.

DuckDB runs in the process that calls it. There its limits do not hold: memory that a function takes for its results is
not counted, and a call is interrupted only between two steps, and one may take minutes. A query of somebody with
no right at all could so end the broker whose console it is. So the query is run elsewhere: the operating system limits
the memory of that process, ``seconds_max`` is its whole life, and nothing gets there but the text and the records that
the visitor may read.

    here                                        the process
    task (msgpack)                        →     limits itself
    name of a table, its batches (Arrow)  →     loads it; and so on
    an empty name                         →     locks DuckDB, runs the query
                                          ←     answer (msgpack), at most ``answer_bytes_max``

Read next: ``confined_tasks``, ``confined_process``.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Timer
from typing import IO, Any

import msgspec

from siltstone.console.confined_tasks import (
    Answer,
    FilterAnswer,
    FilterTask,
    ProcessLimits,
    QueryFailure,
    QueryTask,
    TableHead,
    TextRows,
    read_frame,
    too_much_memory,
    write_frame,
)
from siltstone.foundation.quantity_words import seconds_words
from siltstone.kafka_client.following import Found
from siltstone.record_columns.arrow import require_arrow
from siltstone.scanning.duckdb_tables import QueryRefused, refuse_without_duckdb
from siltstone.scanning.querying import PlannedQuery
from siltstone.scanning.where import WhereRefused

_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "PYTHONDONTWRITEBYTECODE")
"""What the process gets of the environment: no credentials."""


class ConfinedQuery(msgspec.Struct, frozen=True):
    """What a visitor gets: ``notes`` say what of a topic could not be shown as it is."""

    columns: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...]


def run_confined(
    planned: PlannedQuery,
    *,
    seconds_max: float,
    rows_max: int,
    cell_characters_max: int = 0,
    limits: ProcessLimits | None = None,
) -> ConfinedQuery:
    """Runs a query. Blocks. Raises QueryRefused, ArrowMissing without DuckDB, and what reading a topic raises."""
    limits = limits or ProcessLimits()
    with _process(seconds_max, limits, QueryRefused) as (process, folder):

        def tell(stream: IO[bytes]) -> None:
            task = QueryTask(planned.text, folder, seconds_max, limits, rows_max, cell_characters_max)
            write_frame(stream, task)
            for each in planned.tables():
                write_frame(stream, TableHead(each.name, each.schema))
                with require_arrow().ipc.new_stream(stream, each.batches.schema) as written:
                    for batch in each.batches:
                        written.write_batch(batch)
            write_frame(stream, TableHead())

        answer = _answer_of(process, tell)
    if isinstance(answer, QueryFailure):
        raise QueryRefused(answer.text) if answer.is_whole else planned.refusal(answer.text)
    assert isinstance(answer, TextRows), "it is the answer to a query"
    return ConfinedQuery(answer.columns, answer.rows, tuple(planned.notes))


def confined_matches(
    condition: str,
    found: Sequence[Found],
    *,
    name: str,
    seconds_max: float,
    limits: ProcessLimits | None = None,
) -> list[bool]:
    """Returns for each record whether it matches the condition (``scanning.where``). Blocks. Raises WhereRefused, and
    ArrowMissing without DuckDB."""
    limits = limits or ProcessLimits()
    records = [
        (where.partition, record.offset, record.timestamp_ms, _bytes(record.key), _bytes(record.value))
        for where, record in found
    ]
    with _process(seconds_max, limits, WhereRefused) as (process, folder):
        task = FilterTask(condition, name, folder, seconds_max, limits, records)
        answer = _answer_of(process, lambda stream: write_frame(stream, task))
    if isinstance(answer, QueryFailure):
        raise WhereRefused(answer.text)
    assert isinstance(answer, FilterAnswer), "it is the answer to a filter"
    return answer.matching


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)


@contextmanager
def _process(
    seconds_max: float, limits: ProcessLimits, refused: type[Exception]
) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Yields a process, and its folder. Raises ``refused`` if the process has ended without an answer."""
    refuse_without_duckdb()
    kept = {name: value for name in _KEPT_VARIABLES if (value := os.environ.get(name)) is not None}
    with tempfile.TemporaryDirectory(prefix="siltstone-sql-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "siltstone.console.confined_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=folder,
            env={**kept, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)},
        )
        is_late = False

        def end() -> None:
            nonlocal is_late
            is_late = True
            process.kill()

        late = Timer(seconds_max, end)
        late.start()
        try:
            yield process, folder
        except EOFError:
            raise refused(
                f"the query takes more than {seconds_words(seconds_max)}: ask for less, or use siltstone sql, or Spark"
                if is_late
                else too_much_memory(limits)
            ) from None
        finally:
            late.cancel()
            process.kill()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with suppress(BrokenPipeError):  # what was not read yet
                    stream.close()
            process.wait()


def _answer_of(process: "subprocess.Popen[bytes]", tell: Callable[[IO[bytes]], None]) -> Answer:
    """Raises EOFError when the process has ended before it has answered."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError):  # it has answered before it has read everything, or has ended
        tell(process.stdin)
    answer: Answer = read_frame(process.stdout, Answer)
    return answer
