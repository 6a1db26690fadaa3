"""Consumer groups: their lag in records and seconds, and what a reset would read again."""

import shlex
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from starlette.responses import Response

from siltstone.console.application import Asked, PageRefused, number_of, time_ms_of
from siltstone.console.pages.topics import topic_of
from siltstone.metadata.entities import TopicMetadata
from siltstone.metadata_tables.catalog import tables_of
from siltstone.model.console_limits import CONSOLE_ROWS_MAX
from siltstone.offline.context import MaintenanceContext
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.scan import plan_scan

TARGETS = ("earliest", "latest", "offset", "time")


class ResetView(msgspec.Struct, frozen=True):
    """What a reset does in one partition. ``again`` and ``skipped`` count offsets."""

    partition: int
    committed: int
    target: int

    @property
    def again(self) -> int:
        return max(0, self.committed - self.target)

    @property
    def skipped(self) -> int:
        return max(0, self.target - self.committed)


async def groups(asked: Asked) -> Response:
    """The list, the group with the most left to read first."""
    tables = tables_of(await asked.store.moment())
    wanted = asked.query("q").strip().lower()
    rows = [
        each for each in tables.groups.rows()
        if asked.visitor.sees_group(each["group"]) and wanted in each["group"].lower()
    ]  # fmt: skip
    rows.sort(key=lambda each: (-(each["lag_records"] or 0), each["group"]))
    return asked.page(
        "groups.html", groups=rows[:CONSOLE_ROWS_MAX], more=max(0, len(rows) - CONSOLE_ROWS_MAX), q=wanted
    )


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
            max((row["lag_seconds"] for row in lags if row["lag_seconds"] is not None), default=None),
            len(lags),
        )
        for each, lags in found.items()
    ]
    rows.sort(key=lambda row: (-row[1], row[0]))
    return asked.page("topic_groups.html", groups=rows[:CONSOLE_ROWS_MAX])


async def group(asked: Asked) -> Response:
    """One group: each partition, and with a form what a reset of one topic would do."""
    name = asked.part("group")
    rows = await _lags(asked, name)
    topics = sorted({each["topic"] for each in rows})
    reset = await _reset(asked, name, rows) if asked.query("topic") else None
    return asked.page(
        "group.html", name=name, rows=rows[:CONSOLE_ROWS_MAX], more=max(0, len(rows) - CONSOLE_ROWS_MAX),
        records=sum(each["lag_records"] or 0 for each in rows), topics=topics, targets=TARGETS, reset=reset,
        seconds=max((each["lag_seconds"] for each in rows if each["lag_seconds"] is not None), default=None),
        form={each: asked.query(each) for each in ("topic", "to", "at")},
    )  # fmt: skip


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


async def _reset(asked: Asked, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns a row for each partition of the topic, and the command that does it. Raises PageRefused."""
    topic, to, at = asked.query("topic"), asked.query("to", "earliest"), asked.query("at").strip()
    image = asked.store.image
    found = image.topics.get(image.topic_ids.get(topic, ""))
    mine = sorted((each for each in rows if each["topic"] == topic), key=lambda each: each["partition"])
    if found is None or not mine or to not in TARGETS:
        raise PageRefused(
            400, f"the group has committed nothing of {topic}, or {to!r} is none of {', '.join(TARGETS)}"
        )
    if to == "offset" and number_of(at) is None:
        raise PageRefused(400, f"{at!r} is no offset: write a number")
    if to == "time":
        time_ms = time_ms_of(at)
        partitions = [each["partition"] for each in mine]
        targets = await asked.run(partial(_offsets_at, asked.store.context, found, partitions, time_ms))
        word = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    else:
        targets = {each["partition"]: _target(each, to, at) for each in mine}
        word = at if to == "offset" else to
    shown = [
        ResetView(each["partition"], each["committed_offset"], targets[each["partition"]]) for each in mine
    ]
    return {
        "rows": shown[:CONSOLE_ROWS_MAX],
        "again": sum(each.again for each in shown),
        "skipped": sum(each.skipped for each in shown),
        "command": f"siltstone groups reset {shlex.quote(name)} --topic {shlex.quote(topic)} --to {word}",
    }


def _target(row: dict[str, Any], to: str, at: str) -> int:
    if to == "offset":
        return int(min(max(int(at), row["start_offset"]), row["end_offset"]))
    return int(row["start_offset"] if to == "earliest" else row["end_offset"])


def _offsets_at(
    source: MaintenanceContext, topic: TopicMetadata, partitions: list[int], time_ms: int
) -> dict[int, int]:
    """Returns the offset of the first record at or after a time, by a plan that reads no record."""
    time = datetime.fromtimestamp(time_ms / 1000, UTC)
    request = scan_request(
        topic.name, partitions=partitions, start=time, end=time, tail="committed", lease="0"
    )
    return {each.of.partition: each.start_offset for each in plan_scan(source, request).cuts}
