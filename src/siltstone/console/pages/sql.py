"""SQL over topics: what a query would read, and its rows."""

import csv
import io
from functools import partial
from itertools import islice
from typing import Any

import msgspec
from starlette.responses import Response

from siltstone.console.application import Asked, PageRefused
from siltstone.console.views.topics import counts_of
from siltstone.foundation.quantity_words import size_words
from siltstone.metadata_tables.catalog import METADATA_TABLES, tables_of
from siltstone.metadata_tables.moment import Moment
from siltstone.model.console_limits import (
    CONSOLE_CELL_CHARACTERS_MAX,
    CONSOLE_DOWNLOAD_MAX,
    CONSOLE_QUERY_ROWS_MAX,
)
from siltstone.scanning.querying import QueryChoice, run_query, topics_named


class TopicRead(msgspec.Struct, frozen=True):
    """What a query reads of one topic: all of it."""

    name: str
    records: int
    size_bytes: int
    objects: int


async def sql(asked: Asked) -> Response:
    """The page, with the query of the address in its box; nothing is run."""
    text = asked.query("q")
    return asked.page(
        "sql.html", q=text, read=_read(asked, text), topics=_topics(asked), tables=tuple(METADATA_TABLES)
    )


async def plan(asked: Asked) -> Response:
    """What the query would read."""
    return asked.page("sql_plan.html", read=_read(asked, asked.query("q")))


async def rows(asked: Asked) -> Response:
    """Runs the query and shows its first rows."""
    text = asked.query("q").strip()
    _refuse_unseen(asked, text)
    call = partial(_rows, asked, text, await asked.store.moment(), CONSOLE_QUERY_ROWS_MAX + 1)
    columns, found, notes = await asked.run(call, asked.store.limits.query_seconds_max)
    more = len(found) > CONSOLE_QUERY_ROWS_MAX
    cells = [[_cut(_cell(value)) for value in row] for row in found[:CONSOLE_QUERY_ROWS_MAX]]
    return asked.page("sql_rows.html", columns=columns, rows=cells, notes=notes, more=more, q=text)


async def download(asked: Asked) -> Response:
    """Runs the query and gives its rows as a CSV file."""
    text = asked.query("q").strip()
    _refuse_unseen(asked, text)
    call = partial(_rows, asked, text, await asked.store.moment(), CONSOLE_DOWNLOAD_MAX)
    columns, found, _ = await asked.run(call, asked.store.limits.query_seconds_max)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in found)
    headers = {"Content-Disposition": 'attachment; filename="query.csv"'}
    return Response(out.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


def _topics(asked: Asked) -> list[str]:
    found = asked.store.image.topics.values()
    return sorted(each.name for each in found if not each.is_internal and asked.visitor.sees(each.name))


def _read(asked: Asked, text: str) -> list[TopicRead]:
    image, now_ms = asked.store.image, asked.store.now_ms()
    seen = [each.name for each in image.topics.values() if asked.visitor.sees(each.name)]
    found = [
        counts_of(image, image.topics[image.topic_ids[name]], now_ms) for name in topics_named(text, seen)
    ]
    return [TopicRead(each.name, each.records, each.size_bytes, each.objects) for each in found]


def _refuse_unseen(asked: Asked, text: str) -> None:
    """Raises PageRefused for a query of topics that the visitor may see and not read, or of more bytes than the console
    reads. A topic that the visitor may not see is for the query as if it did not exist."""
    topics = [each.name for each in asked.store.image.topics.values() if asked.visitor.sees(each.name)]
    for name in topics_named(text, topics):
        if not asked.visitor.reads(name):
            raise PageRefused(403, f"{asked.visitor.name} may not read {name}")
    size_bytes = sum(each.size_bytes for each in _read(asked, text))
    if size_bytes > (bytes_max := asked.store.limits.query_bytes_max):
        raise PageRefused(
            400,
            f"the query reads {size_words(size_bytes)}, and the console at most {size_words(bytes_max)}: "
            "run it with siltstone sql, or on Spark",
        )


def _rows(
    asked: Asked, text: str, moment: Moment, rows_max: int
) -> tuple[tuple[str, ...], list[tuple[Any, ...]], tuple[str, ...]]:
    """Runs the query, in a thread."""
    choice = QueryChoice(tail=asked.store.tail, seconds_max=asked.store.limits.query_seconds_max)
    tables = tables_of(moment) if asked.visitor.describes_cluster else None
    visitor = asked.visitor
    with run_query(
        asked.store.context, text, choice, tables, lambda name: visitor.sees(name) and visitor.reads(name)
    ) as found:
        return found.columns, list(islice(found.rows, rows_max)), found.notes


def _cut(cell: str) -> str:
    """Returns what a page shows of a cell: a row of a query may have a value of a gigabyte."""
    if len(cell) <= CONSOLE_CELL_CHARACTERS_MAX:
        return cell
    return (
        f"{cell[:CONSOLE_CELL_CHARACTERS_MAX]}… (the first {CONSOLE_CELL_CHARACTERS_MAX:,} of {len(cell):,})"
    )


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return value.hex() if isinstance(value, bytes) else str(value)
