"""Consumer groups: their lag in records, bytes and seconds, and what a reset would read again."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from siltstone.console.application import Asked, PageRefused, number_of, time_ms_of
from siltstone.console.pages.topics import topic_of
from siltstone.console.store import ConsoleStore
from siltstone.console.visitors import Visitor
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.failures import BrokerElsewhere
from siltstone.kafka_client.groups import describe_group, query_of_text
from siltstone.kafka_client.positions import Anchor, Position
from siltstone.kafka_client.resetting import (
    ResetRow,
    confirmed_reset,
    planned_reset,
    refuse_members,
    reset_rows,
)
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata_tables.catalog import tables_of
from siltstone.model.console_limits import CONSOLE_ROWS_MAX
from siltstone.model.errors import SiltstoneError
from siltstone.offline.context import MaintenanceContext
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.scan import plan_scan

READER_CHARACTERS_MAX = 80
"""What is shown of the text that a client has committed with its offsets."""

TARGETS = ("earliest", "latest", "offset", "time")


async def groups(asked: Asked) -> Response:
    """The list, the group with the most left to read first. Topics that the visitor may not see do not count."""
    tables = tables_of(await asked.store.moment())
    wanted = asked.query("q").strip().lower()
    lags: dict[str, list[dict[str, Any]]] = {}
    for row in tables.group_lags.rows():
        name = row["group"]
        if wanted in name.lower() and asked.visitor.sees_group(name) and asked.visitor.sees(row["topic"]):
            lags.setdefault(name, []).append(row)
    rows = [_summed(asked.store.image, name, of_group) for name, of_group in lags.items()]
    rows.sort(key=lambda each: (-each["lag_records"], each["group"]))
    return asked.page(
        "groups.html", groups=rows[:CONSOLE_ROWS_MAX], more=max(0, len(rows) - CONSOLE_ROWS_MAX), q=wanted
    )


def _summed(image: MetadataImage, name: str, lags: list[dict[str, Any]]) -> dict[str, Any]:
    times = [each["committed_at"] for each in lags if each["committed_at"] is not None]
    return {
        "group": name,
        "lag_records": sum(each["lag_records"] or 0 for each in lags),
        "lag_bytes": sum(each["lag_bytes"] or 0 for each in lags),
        "lag_seconds": max(
            (each["lag_seconds"] for each in lags if each["lag_seconds"] is not None), default=None
        ),
        "topics": len({each["topic"] for each in lags}),
        "partitions": len(lags),
        "uncommitted": len(_uncommitted(image, lags)),
        "committed_at": max(times, default=None),
        "reader": _reader(lags),
    }


def _uncommitted(image: MetadataImage, lags: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the partitions that have records, of topics that the group reads, where it has committed nothing: what it
    has left to read there is not known, so what is counted is the least."""
    committed = {(each["topic"], each["partition"]) for each in lags}
    found = []
    for name in sorted({topic for topic, _ in committed}):
        topic = image.topics.get(image.topic_ids.get(name, ""))
        for number, partition in enumerate(() if topic is None else topic.partitions):
            stream = image.streams.get(partition.data_stream_id)
            if (
                (name, number) not in committed
                and stream is not None
                and stream.end_offset > stream.start_offset
            ):
                found.append(f"{name}-{number}")
    return found


def _reader(lags: Sequence[Mapping[str, Any]]) -> str:
    """Returns what the group is, as its commits tell: a streaming query and its machine, or the text of another
    client."""
    text = next((each["metadata"] for each in lags if each["metadata"]), "")
    query = query_of_text(text)
    if query is None:
        return str(text[:READER_CHARACTERS_MAX])
    place = f" on {query.host}" if query.host else ""
    return f"streaming query {query.siltstone_query}{place}"[:READER_CHARACTERS_MAX]


async def groups_of_topic(asked: Asked) -> Response:
    """The groups that read one topic, a part of the topic's page."""
    name = topic_of(asked).name
    found: dict[str, list[dict[str, Any]]] = {}
    for row in tables_of(await asked.store.moment()).group_lags.rows(topic=name):
        if asked.visitor.sees_group(row["group"]):
            found.setdefault(row["group"], []).append(row)
    rows = [
        (
            each,
            sum(row["lag_records"] or 0 for row in lags),
            sum(row["lag_bytes"] or 0 for row in lags),
            max((row["lag_seconds"] for row in lags if row["lag_seconds"] is not None), default=None),
            len(lags),
            len(_uncommitted(asked.store.image, lags)),
        )
        for each, lags in found.items()
    ]
    rows.sort(key=lambda row: (-row[1], row[0]))
    return asked.page("topic_groups.html", groups=rows[:CONSOLE_ROWS_MAX])


async def group(asked: Asked) -> Response:
    """One group: each partition, and with a form what a reset of one topic would do."""
    return await _shown_group(asked, asked.part("group"))


async def _shown_group(asked: Asked, name: str) -> Response:
    rows = await _lags(asked, name)
    topics = sorted({each["topic"] for each in rows})
    reset = await _preview(asked, name, rows) if asked.query("topic") else None
    return asked.page(
        "group.html", name=name, rows=rows[:CONSOLE_ROWS_MAX], more=max(0, len(rows) - CONSOLE_ROWS_MAX),
        records=sum(each["lag_records"] or 0 for each in rows), bytes=sum(each["lag_bytes"] or 0 for each in rows),
        topics=topics, targets=TARGETS, reset=reset,
        seconds=max((each["lag_seconds"] for each in rows if each["lag_seconds"] is not None), default=None),
        reader=_reader(rows), uncommitted=_uncommitted(asked.store.image, rows),
        form={each: asked.query(each) for each in ("topic", "to", "at")},
        changed=asked.query("changed") == "1",
    )  # fmt: skip


async def reset(asked: Asked) -> Response:
    """Does what a preview has shown. The visitor has typed the name of the group again."""
    name, topic = asked.form.get("group", ""), asked.form.get("topic", "")
    if not (asked.visitor.sees_group(name) and asked.visitor.sees(topic)):
        raise PageRefused(404, f"there is no group {name}, or no topic {topic}")
    if not asked.visitor.resets(name, topic):
        raise PageRefused(403, f"{asked.visitor.name} may not read {topic} as the group {name}")
    if asked.form.get("name", "").strip() != name:
        raise PageRefused(400, f"type the name of the group, {name}, to reset it: nothing was changed")
    rows = _rows_of(topic, asked.form.get("rows", ""))
    await asked.run(partial(_reset, asked.store, asked.visitor, name, rows))
    await asked.store.refresh()
    return RedirectResponse(f"/groups/{quote(name, safe='')}?changed=1", 303)


def _reset(store: ConsoleStore, visitor: Visitor, name: str, rows: list[ResetRow]) -> None:
    with store.cluster(visitor) as cluster:
        confirmed_reset(cluster, name, rows)


async def _lags(asked: Asked, name: str) -> list[dict[str, Any]]:
    """Raises PageRefused."""
    tables = tables_of(await asked.store.moment())
    if asked.visitor.sees_group(name):
        rows = [each for each in tables.group_lags.rows() if each["group"] == name]
        seen = [each for each in rows if asked.visitor.sees(each["topic"])]
        if seen:
            return sorted(
                seen, key=lambda each: (-(each["lag_records"] or 0), each["topic"], each["partition"])
            )
    raise PageRefused(
        404, f"no group {name} has committed an offset of a topic that exists, as far as objects have it"
    )


async def _preview(asked: Asked, name: str, lags: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns a row for each partition of the topic, and the command that does it. Raises PageRefused.

    A visitor who may reset sees what the brokers say, since that is what will be done; others see the metadata."""
    topic, to, at = asked.query("topic"), asked.query("to", "earliest"), asked.query("at").strip()
    image = asked.store.image
    found = image.topics.get(image.topic_ids.get(topic, ""))
    mine = {each["partition"]: each["committed_offset"] for each in lags if each["topic"] == topic}
    if found is None or not mine or to not in TARGETS:
        raise PageRefused(
            400, f"the group has committed nothing of {topic}, or {to!r} is none of {', '.join(TARGETS)}"
        )
    if to == "offset" and number_of(at) is None:
        raise PageRefused(400, f"{at!r} is no offset: write a number")
    time_ms = time_ms_of(at) if to == "time" else None
    words = {"offset": at, "time": "" if time_ms is None else _time_word(time_ms)}
    known = {
        each["partition"]: (each["start_offset"], each["end_offset"])
        for each in lags
        if each["topic"] == topic
    }
    targets = await asked.run(partial(_targets, asked.store, found, known, to, at, time_ms))
    why_not = ""
    rows: list[ResetRow] | None = None
    if asked.visitor.resets(name, topic):
        position = _position(to, at, time_ms)
        try:
            rows = await asked.run(
                partial(_asked_rows, asked.store, asked.visitor, name, topic, targets, position)
            )
        except SiltstoneError as trouble:
            why_not = str(trouble)
        else:
            if len(rows) > CONSOLE_ROWS_MAX:
                why_not = "the topic has more partitions than a page shows"
    if rows is None:
        rows = [ResetRow(topic, each, mine[each], targets[each]) for each in sorted(mine) if each in targets]
    return {
        "topic": topic,
        "rows": rows[:CONSOLE_ROWS_MAX],
        "encoded": _encoded(rows),
        "again": sum(each.again for each in rows),
        "skipped": sum(each.skipped for each in rows),
        "may": asked.visitor.resets(name, topic),
        "why_not": why_not,
        "command": f"siltstone groups reset {shlex.quote(name)} --topic {shlex.quote(topic)} --to {words.get(to, to)}",
    }


def _asked_rows(
    store: ConsoleStore,
    visitor: Visitor,
    name: str,
    topic: str,
    targets: Mapping[int, int],
    position: Position,
) -> list[ResetRow]:
    """Asks the brokers, in a thread. Raises GroupInUse."""
    with store.cluster(visitor) as cluster:
        group = describe_group(cluster, name)
        refuse_members(group)
        keys = [TopicPartition(topic, each) for each in sorted(targets)]
        try:
            return planned_reset(cluster, group, keys, position)
        except BrokerElsewhere:  # another node leads some of the partitions; their ends are those in objects
            return reset_rows(cluster, group, {key: targets[key.partition] for key in keys})


def _position(to: str, at: str, time_ms: int | None) -> Position:
    if time_ms is not None:
        return Position(Anchor.TIME, time_ms)
    return Position(Anchor.OFFSET, int(at)) if to == "offset" else Position(Anchor(to))


def _encoded(rows: Sequence[ResetRow]) -> str:
    """Writes the rows into the form of a reset: partition:before:after, with an empty text for no offset."""
    return ",".join(
        f"{each.partition}:{'' if each.before is None else each.before}:{each.after}" for each in rows
    )


def _rows_of(topic: str, text: str) -> list[ResetRow]:
    """Parses what ``_encoded`` wrote. Raises PageRefused."""
    rows = []
    for part in text.split(","):
        match [number_of(each) if each else -1 for each in part.split(":")]:
            case [int(partition), int(before), int(after)] if partition >= 0 <= after:
                rows.append(ResetRow(topic, partition, None if before < 0 else before, after))
            case _:
                raise PageRefused(
                    400, "the form does not say which offsets were shown: look at the reset again"
                )
    return rows


def _targets(
    store: ConsoleStore,
    topic: TopicMetadata,
    known: Mapping[int, tuple[int, int]],
    to: str,
    at: str,
    time_ms: int | None,
) -> dict[int, int]:
    """Returns the offset of each partition, as far as objects have it, or a broker knows better by ``known``, the first
    and the next offset by partition. In a thread."""
    streams = {
        number: stream
        for number, each in enumerate(topic.partitions)
        if (stream := store.image.streams.get(each.data_stream_id)) is not None
    }
    if time_ms is not None:
        return _offsets_at(store.context, topic, sorted(streams), time_ms)
    return {
        number: _target(to, at, *known.get(number, (stream.start_offset, stream.end_offset)))
        for number, stream in streams.items()
    }


def _time_word(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _target(to: str, at: str, start_offset: int, end_offset: int) -> int:
    if to == "offset":
        return min(max(int(at), start_offset), end_offset)
    return start_offset if to == "earliest" else end_offset


def _offsets_at(
    source: MaintenanceContext, topic: TopicMetadata, partitions: list[int], time_ms: int
) -> dict[int, int]:
    """Returns the offset of the first record at or after a time, by a plan that reads no record."""
    time = datetime.fromtimestamp(time_ms / 1000, UTC)
    request = scan_request(
        topic.name, partitions=partitions, start=time, end=time, tail="committed", lease="0"
    )
    return {each.of.partition: each.start_offset for each in plan_scan(source, request).cuts}
