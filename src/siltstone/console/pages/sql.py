"""SQL over topics: what a query would read, and its rows."""

import io
from functools import partial

import msgspec
from starlette.responses import Response

from siltstone.console.application import Asked, PageRefused
from siltstone.console.confined import ConfinedQuery, run_confined
from siltstone.console.pages.messages import write_csv
from siltstone.console.views.topics import counts_of
from siltstone.foundation.quantity_words import size_words
from siltstone.metadata_tables.catalog import METADATA_TABLES, tables_of
from siltstone.metadata_tables.moment import Moment
from siltstone.model.console_limits import (
    CONSOLE_CELL_CHARACTERS_MAX,
    CONSOLE_DOWNLOAD_MAX,
    CONSOLE_QUERY_ROWS_MAX,
)
from siltstone.scanning.querying import PlannedQuery, QueryChoice, topics_named


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
    call = partial(
        _rows,
        asked,
        text,
        await asked.store.moment(),
        CONSOLE_QUERY_ROWS_MAX + 1,
        CONSOLE_CELL_CHARACTERS_MAX,
    )
    found = await asked.run(call, asked.store.limits.query_seconds_max)
    more = len(found.rows) > CONSOLE_QUERY_ROWS_MAX
    return asked.page(
        "sql_rows.html", columns=found.columns, rows=found.rows[:CONSOLE_QUERY_ROWS_MAX], notes=found.notes, more=more,
        q=text,
    )  # fmt: skip


async def download(asked: Asked) -> Response:
    """Runs the query and gives its rows as a CSV file."""
    text = asked.query("q").strip()
    _refuse_unseen(asked, text)
    call = partial(_file, asked, text, await asked.store.moment())
    body = await asked.run(call, asked.store.limits.query_seconds_max)
    headers = {"Content-Disposition": 'attachment; filename="query.csv"'}
    return Response(body, media_type="text/csv; charset=utf-8", headers=headers)


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
    asked: Asked, text: str, moment: Moment, rows_max: int, cell_characters_max: int = 0
) -> ConfinedQuery:
    """Runs the query, in a thread that waits for a process."""
    choice = QueryChoice(tail=asked.store.tail)
    tables = tables_of(moment) if asked.visitor.describes_cluster else None
    visitor = asked.visitor
    planned = PlannedQuery(
        asked.store.context, text, choice, tables, lambda name: visitor.sees(name) and visitor.reads(name)
    )
    seconds_max = asked.store.limits.query_seconds_max
    return run_confined(
        planned, seconds_max=seconds_max, rows_max=rows_max, cell_characters_max=cell_characters_max
    )


def _file(asked: Asked, text: str, moment: Moment) -> bytes:
    """Runs the query and writes its rows, in a thread."""
    found = _rows(asked, text, moment, CONSOLE_DOWNLOAD_MAX)
    out = io.BytesIO()
    write_csv(out, found.columns, found.rows)
    return out.getvalue()
