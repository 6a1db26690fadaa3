"""Messages of a topic: a page of them, a part that follows the newest, downloads, and the same in code."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import IO, Any

import msgspec
from starlette.responses import Response

from siltstone.console.application import Asked, PageRefused, number_of, time_ms_of
from siltstone.console.copied import copied
from siltstone.console.messages import Found, MessagesWanted, downloaded_table, find_messages
from siltstone.console.pages.topics import topic_of
from siltstone.metadata.entities import TopicMetadata
from siltstone.model.console_limits import CONSOLE_DOWNLOAD_MAX, CONSOLE_MESSAGES_MAX
from siltstone.record_columns.arrow import parquet_bytes
from siltstone.record_columns.row_columns import HEADERS, KEY, VALUE

COUNTS = (25, 50, 100, CONSOLE_MESSAGES_MAX)
ROWS_AT_A_TIME = 1_000
"""Rows of a download that are in memory as Python has them."""

FORMATS = ("", "string", "json", "avro", "protobuf")
_MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}


async def messages(asked: Asked) -> Response:
    """The page: the form, and the messages that it asks for."""
    found = _readable(asked)
    wanted = _wanted(asked, found)
    return asked.page("messages.html", **await _values(asked, found, wanted), live=bool(asked.query("live")))


async def rows(asked: Asked) -> Response:
    """The list of messages alone, which a page that follows the topic loads again."""
    found = _readable(asked)
    return asked.page("messages_rows.html", **await _values(asked, found, _wanted(asked, found)))


async def download(asked: Asked) -> Response:
    """The records of the topic as a file, whole and not cut, or what passes the filter of the page."""
    found = _readable(asked)
    shape = asked.query("as", "jsonl")
    if shape not in _MEDIA:
        raise PageRefused(400, f"a download is one of {', '.join(_MEDIA)}")
    wanted = _wanted(asked, found)
    if not wanted.is_filtered:  # a filter looks at as many records as on the page
        wanted = msgspec.structs.replace(
            wanted,
            count=CONSOLE_DOWNLOAD_MAX // len(wanted.partitions),
            search_records_max=CONSOLE_DOWNLOAD_MAX,
        )
    body = await asked.run(partial(_file, asked, found, wanted, shape))
    name = "".join(each if each.isalnum() or each in "._-" else "_" for each in found.name)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{shape}"'}
    return Response(body, media_type=_MEDIA[shape], headers=headers)


def _readable(asked: Asked) -> TopicMetadata:
    """Returns the topic of the path, if the visitor may read it. Raises PageRefused."""
    found = topic_of(asked)
    if not asked.visitor.reads(found.name):
        raise PageRefused(
            403, f"{asked.visitor.name} may not read {found.name}: siltstone acls add has the right READ"
        )
    return found


async def _values(asked: Asked, topic: TopicMetadata, wanted: MessagesWanted) -> dict[str, Any]:
    context = asked.store.context
    found: Found = await asked.run(partial(find_messages, context, topic, wanted))
    params = {
        name: value for name, value in asked.request.query_params.items() if name not in _PLACES and value
    }
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "found": found,
        "wanted": wanted,
        "params": params,
        "older": _link(params, before=found.older),
        "newer": _link(params, start=found.newer),
        "copied": copied(asked.store.place, topic.name, wanted),
        "counts": COUNTS,
        "formats": FORMATS,
        "form": {name: asked.query(name) for name in _FIELDS},
    }


_FIELDS = ("partition", "offset", "time", "key", "text", "where", "format")
_PLACES = frozenset({"before", "start", "live", "offset", "time"})


def _link(params: Mapping[str, str], **places: Mapping[int, int] | None) -> str:
    from urllib.parse import urlencode  # noqa: PLC0415

    ((name, place),) = places.items()
    if place is None:
        return ""
    return "?" + urlencode(
        {**params, name: ",".join(f"{number}:{offset}" for number, offset in sorted(place.items()))}
    )


def _wanted(asked: Asked, topic: TopicMetadata) -> MessagesWanted:
    """Reads the form. Raises PageRefused."""
    part, offset, time = asked.query("partition"), asked.query("offset").strip(), asked.query("time").strip()
    numbers = range(len(topic.partitions))
    chosen = number_of(part)
    if part and chosen not in numbers:
        raise PageRefused(404, f"{topic.name} has no partition {part}: it has {len(numbers)}, from 0 on")
    partitions = tuple(numbers) if chosen is None else (chosen,)
    start = _places(asked.query("start"))
    if offset:
        first = number_of(offset)
        if first is None:
            raise PageRefused(400, f"{offset!r} is no offset: write a number")
        start = dict.fromkeys(partitions, first)
    return MessagesWanted(
        partitions=partitions,
        count=min(CONSOLE_MESSAGES_MAX, number_of(asked.query("count")) or COUNTS[0]),
        before=_places(asked.query("before")),
        start=start,
        from_ms=time_ms_of(time) if time else None,
        key=asked.query("key"),
        text=asked.query("text"),
        condition=asked.query("where").strip(),
        value=asked.query("format") if asked.query("format") in FORMATS else "",
        registry=asked.store.kind_settings.tables.registry
        if asked.query("format") in ("avro", "protobuf")
        else "",
        tail=asked.store.tail,
        search_records_max=asked.store.limits.search_records_max,
        isolation="uncommitted" if asked.query("isolation") == "uncommitted" else "committed",
    )


def _places(text: str) -> dict[int, int] | None:
    """Parses places such as ``0:17,1:4``. Raises PageRefused."""
    if not text:
        return None
    try:
        return {
            int(number): int(offset)
            for number, _, offset in (each.partition(":") for each in text.split(","))
        }
    except ValueError:
        raise PageRefused(400, f"{text!r} is no place: it is PARTITION:OFFSET, with commas between") from None


def _file(asked: Asked, topic: TopicMetadata, wanted: MessagesWanted, shape: str) -> bytes:
    """Makes the file, in a thread."""
    table = downloaded_table(asked.store.context, topic, wanted)
    if shape == "parquet":
        return parquet_bytes(table)
    out = io.BytesIO()
    rows = (row for batch in table.to_batches(max_chunksize=ROWS_AT_A_TIME) for row in batch.to_pylist())
    if shape == "csv":
        write_csv(out, table.column_names, ([_text(value) for value in row.values()] for row in rows))
        return out.getvalue()
    for row in rows:
        row[KEY], row[VALUE] = _text_or_none(row[KEY]), _text_or_none(row[VALUE])
        row[HEADERS] = [[each["key"], _text_or_none(each["value"])] for each in row[HEADERS] or []]
        out.write(msgspec.json.encode(row, enc_hook=str) + b"\n")
    return out.getvalue()


def write_csv(out: IO[bytes], columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Writes a file of text as bytes: ``io.StringIO`` would take four bytes for each character."""
    text = io.TextIOWrapper(out, "utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(rows)
    text.detach()


def _text_or_none(value: Any) -> Any:
    return _text(value) if isinstance(value, bytes) else value


def _text(value: Any) -> str:
    """Returns a cell: bytes as text, or in hexadecimal digits when they are none."""
    if value is None:
        return ""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"0x{value.hex()}"
    return msgspec.json.encode(value, enc_hook=str).decode() if isinstance(value, list | dict) else str(value)
