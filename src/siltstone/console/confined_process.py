"""The process that ``confined`` starts: limits itself, loads what it is sent, runs one text, answers, and ends."""

import resource
import shutil
import signal
import sys
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from siltstone.console.confined_tasks import (
    Answer,
    FilterAnswer,
    FilterTask,
    ProcessLimits,
    QueryFailure,
    QueryTask,
    TableHead,
    Task,
    TextRows,
    read_frame,
    too_much_memory,
    write_frame,
)
from siltstone.foundation.quantity_words import size_words
from siltstone.model.errors import SiltstoneError
from siltstone.record_columns.arrow import require_arrow
from siltstone.scanning.duckdb_tables import (
    QueryRefused,
    connected,
    load_table,
    lock,
    reason_of,
    refuse_statements,
    require_duckdb,
)

LATE_SECONDS = 2
"""The parent ends this process in time; if it has gone itself, the kernel does, so much later."""

NEXT_ROWS = 100
"""Rows that are in memory as Python has them, beside their texts."""


def main() -> None:
    source, answers = sys.stdin.buffer, sys.stdout.buffer
    task: Task = read_frame(source, Task)
    _limit(task.seconds_max, task.limits)
    try:
        answer: Answer = _matches(task) if isinstance(task, FilterTask) else _rows(task, source)
    except SiltstoneError as refusal:
        answer = QueryFailure(str(refusal), is_whole=True)
    except MemoryError:
        answer = QueryFailure(too_much_memory(task.limits), is_whole=True)
    write_frame(answers, answer)


def _limit(seconds_max: float, limits: ProcessLimits) -> None:
    signal.alarm(int(seconds_max) + LATE_SECONDS)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = limits.process_bytes_max if hard == resource.RLIM_INFINITY else min(hard, limits.process_bytes_max)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.disk_bytes_max, limits.disk_bytes_max))
    with suppress(OSError):  # Linux: where memory is short, this process is ended, and not the broker
        Path("/proc/self/oom_score_adj").write_text("1000")
    require_arrow().set_cpu_count(1)


def disk_bytes(limits: ProcessLimits, folder: str) -> int:
    """Returns how much may be written to the folder: at most a quarter of what is free, for it may be in memory, and is
    that of other programs, too."""
    return min(limits.disk_bytes_max, shutil.disk_usage(folder).free // 4)


def _rows(task: QueryTask, source: IO[bytes]) -> Answer:
    duckdb = require_duckdb()
    refuse_statements(task.text)
    settings = {
        "memory_limit": f"{task.limits.memory_bytes >> 20}MiB",
        "max_temp_directory_size": f"{disk_bytes(task.limits, task.folder) >> 20}MiB",
        "temp_directory": task.folder,
        "threads": "2",
    }
    with closing(connected(settings)) as connection:
        while (head := read_frame(source, TableHead)).name:
            load_table(connection, head.schema, head.name, require_arrow().ipc.open_stream(source))
        lock(connection)
        try:
            found = connection.execute(task.text)
            columns = [each[0] for each in found.description or ()]
            return TextRows(columns, _texts(task, found))
        except duckdb.Error as failure:
            return QueryFailure(reason_of(failure), is_whole=False)


def _texts(task: QueryTask, found: Any) -> list[list[str]]:
    """Raises QueryRefused when they are too long together."""
    rows: list[list[str]] = []
    left = task.limits.answer_bytes_max
    while len(rows) < task.rows_max and (more := found.fetchmany(NEXT_ROWS)):
        for row in islice(more, task.rows_max - len(rows)):
            texts = [_cut(_cell(value), task.cell_characters_max) for value in row]
            left -= sum(map(len, texts))
            if left < 0:
                raise QueryRefused(
                    f"the rows have more than {size_words(task.limits.answer_bytes_max)}: choose fewer of them, or "
                    "fewer columns, or use siltstone sql"
                )
            rows.append(texts)
    return rows


def _cut(cell: str, characters_max: int) -> str:
    """Returns what a page shows of a cell: a row of a query may have a value of megabytes."""
    if not characters_max or len(cell) <= characters_max:
        return cell
    return f"{cell[:characters_max]}… (the first {characters_max:,} of {len(cell):,})"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return value.hex() if isinstance(value, bytes) else str(value)


class _Place(NamedTuple):
    partition: int


class _Record(NamedTuple):
    """What a condition looks at; the package of Kafka's client takes a second to import, and a page waits."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def _matches(task: FilterTask) -> Answer:
    from siltstone.scanning.where import Where  # noqa: PLC0415  a query does not need it, and waits

    where = Where(task.condition, name=task.name, memory_limit=f"{task.limits.memory_bytes >> 20}MiB")
    records: Any = [(_Place(each[0]), _Record(*each[1:])) for each in task.records]
    return FilterAnswer(where.matches(records))


if __name__ == "__main__":
    main()
