"""What ``confined`` and its process say to each other, in msgpack, each behind its length."""

from typing import IO, Any

import msgspec

from siltstone.foundation.quantity_words import size_words
from siltstone.model.console_limits import (
    CONSOLE_ANSWER_BYTES_MAX,
    CONSOLE_QUERY_DISK_BYTES_MAX,
    CONSOLE_QUERY_MEMORY_BYTES,
    CONSOLE_QUERY_PROCESS_BYTES_MAX,
)

LENGTH_BYTES = 8


class ProcessLimits(msgspec.Struct, frozen=True):
    """``memory_bytes``: what DuckDB uses before it writes to its folder, ``disk_bytes_max`` there. Above
    ``process_bytes_max`` of memory the process ends. ``answer_bytes_max``: of the texts that come back."""

    memory_bytes: int = CONSOLE_QUERY_MEMORY_BYTES
    process_bytes_max: int = CONSOLE_QUERY_PROCESS_BYTES_MAX
    disk_bytes_max: int = CONSOLE_QUERY_DISK_BYTES_MAX
    answer_bytes_max: int = CONSOLE_ANSWER_BYTES_MAX


class QueryTask(msgspec.Struct, frozen=True, tag="query"):
    """``rows_max`` and ``cell_characters_max``: what comes back of the rows; 0 characters: whole cells."""

    text: str
    folder: str
    seconds_max: float
    limits: ProcessLimits
    rows_max: int
    cell_characters_max: int


class FilterTask(msgspec.Struct, frozen=True, tag="filter"):
    """``records``: partition, offset, timestamp in ms, key, value."""

    condition: str
    name: str
    folder: str
    seconds_max: float
    limits: ProcessLimits
    records: list[tuple[int, int, int, bytes | None, bytes | None]]


class TableHead(msgspec.Struct, frozen=True):
    """Before the batches of a table; without a name nothing follows."""

    name: str = ""
    schema: str = ""


class TextRows(msgspec.Struct, frozen=True, tag="rows"):
    """The rows of a query as a page or a file shows them."""

    columns: list[str]
    rows: list[list[str]]


class FilterAnswer(msgspec.Struct, frozen=True, tag="matches"):
    """Whether each record matches."""

    matching: list[bool]


class QueryFailure(msgspec.Struct, frozen=True, tag="failure"):
    """``is_whole``: the text says it all; otherwise it is DuckDB's, and names may be added."""

    text: str
    is_whole: bool


Task = QueryTask | FilterTask
Answer = TextRows | FilterAnswer | QueryFailure


def too_much_memory(limits: ProcessLimits) -> str:
    return (
        f"the query takes more memory than the console gives it, {size_words(limits.process_bytes_max)}: ask for less, "
        "or use siltstone sql, or Spark"
    )


def write_frame(stream: IO[bytes], value: msgspec.Struct) -> None:
    body = msgspec.msgpack.encode(value)
    stream.write(len(body).to_bytes(LENGTH_BYTES, "big"))
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes], kind: Any) -> Any:
    """``kind``: a type, or a union of structs with tags. Raises EOFError when the other side has ended."""
    head = stream.read(LENGTH_BYTES)
    size_bytes = int.from_bytes(head, "big")
    body = stream.read(size_bytes)
    if len(head) < LENGTH_BYTES or len(body) < size_bytes:
        raise EOFError("the other side has ended")
    return msgspec.msgpack.decode(body, type=kind)
