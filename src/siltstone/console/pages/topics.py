"""Topics: the list, one topic, and the map of one partition."""

from functools import partial

from markupsafe import Markup
from starlette.responses import Response

from siltstone.console import charts
from siltstone.console.application import Asked, PageRefused, number_of
from siltstone.console.views.cluster import move_command, nodes_to_lead
from siltstone.console.views.stream_map import piece_at, stream_map
from siltstone.console.views.topics import configs_shown, counts_of, partition_counts
from siltstone.maintenance.retention.next_deletion import next_deletion
from siltstone.metadata.entities import NO_NODE, StreamMetadata, TopicMetadata
from siltstone.model.console_limits import CONSOLE_ROWS_MAX
from siltstone.tables.inspecting import table_rows

ORDERS = {
    "name": lambda each: each.name,
    "size": lambda each: -each.size_bytes,
    "growth": lambda each: -each.grown_bytes,
    "records": lambda each: -each.records,
    "objects": lambda each: -each.objects,
}


async def topics(asked: Asked) -> Response:
    """The list: ``q`` filters names, ``order`` sorts, ``internal`` shows the broker's own topics."""
    wanted, order = asked.query("q").strip().lower(), asked.query("order", "name")
    rows = [
        each
        for each in await asked.seen_topics()
        if wanted in each.name.lower() and (asked.query("internal") or not each.is_internal)
    ]
    rows.sort(key=ORDERS.get(order, ORDERS["name"]))
    return asked.page(
        "topics.html", topics=rows[:CONSOLE_ROWS_MAX], more=max(0, len(rows) - CONSOLE_ROWS_MAX), q=wanted, order=order,
        internal=bool(asked.query("internal")), rate=asked.store.history.records_per_second,
    )  # fmt: skip


async def topic(asked: Asked) -> Response:
    """One topic: counts, partitions, configuration with sources."""
    found = topic_of(asked)
    image, now_ms = asked.store.image, asked.store.now_ms()
    table = next((each for each in table_rows(image) if each.topic == found.name), None)
    return asked.page(
        "topic.html",
        topic=counts_of(image, found, now_ms),
        deletion=(await asked.run(partial(next_deletion, image, found, now_ms))).words(now_ms),
        created_ms=found.created_ms,
        partitions=partition_counts(image, found)[:CONSOLE_ROWS_MAX],
        configs=configs_shown(image, found) if asked.visitor.describes_configs(found.name) else None,
        table=table,
        rate=asked.store.history.records_per_second(found.topic_id),
    )


async def partition(asked: Asked) -> Response:
    """The map of a partition's data stream; ``offset`` names the object that holds it."""
    found = topic_of(asked)
    stream, number = _stream(asked, found)
    offset = asked.query("offset").replace(",", "").strip()
    wanted = number_of(offset)
    if offset and wanted is None:
        raise PageRefused(400, f"{offset!r} is no offset: write a number")
    drawn = stream_map(asked.store.image, stream)
    return asked.page(
        "partition.html",
        name=found.name,
        number=number,
        map=drawn,
        drawing=Markup(charts.map_of_stream(drawn, lambda object_id: f"/objects/{object_id}")),  # noqa: S704  it escapes
        offset=offset if wanted is None else str(wanted),
        at=None if wanted is None else piece_at(asked.store.image, stream, wanted),
        leader=None if (leader := found.partitions[number].leader) == NO_NODE else leader,
        target=None if (target := found.partitions[number].target) == NO_NODE else target,
        nodes=[each for each in nodes_to_lead(asked.store.image) if each != leader],
        move_command=move_command(asked.store.image, found.name, number, leader),
    )


def topic_of(asked: Asked) -> TopicMetadata:
    """Returns the topic that the path names. Raises PageRefused."""
    return topic_named(asked, asked.part("topic"))


def topic_named(asked: Asked, name: str) -> TopicMetadata:
    """Raises PageRefused, also when the visitor may not see the topic: nobody learns that it exists."""
    image = asked.store.image
    topic_id = image.topic_ids.get(name)
    if topic_id is None or not asked.visitor.sees(name):
        raise PageRefused(404, f"there is no topic {name}")
    return image.topics[topic_id]


def _stream(asked: Asked, found: TopicMetadata) -> tuple[StreamMetadata, int]:
    part = asked.part("partition")
    number = number_of(part)
    if number is None or number >= len(found.partitions):
        raise PageRefused(
            404, f"{found.name} has no partition {part}: it has {len(found.partitions)}, from 0 on"
        )
    stream = asked.store.image.streams.get(found.partitions[number].data_stream_id)
    if stream is None:
        raise PageRefused(404, f"{found.name}-{part} has no stream")
    return stream, number
