"""The overview, what the store holds, how it grows, and what is wrong; and the cluster, its nodes and buckets."""

from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from siltstone.console import charts
from siltstone.console.application import Asked
from siltstone.console.views.cluster import node_views
from siltstone.console.views.objects import objects_summary
from siltstone.console.views.problems import problems
from siltstone.console.views.topics import topic_counts
from siltstone.foundation.quantity_words import size_words
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.entities import NO_NODE
from siltstone.model.console_limits import CONSOLE_ROWS_MAX

FASTEST = 6


async def overview(asked: Asked) -> Response:
    """The whole page."""
    return asked.page("overview.html", **await _values(asked))


async def overview_live(asked: Asked) -> Response:
    """The part that is loaded again every few seconds."""
    return asked.page("overview_live.html", **await _values(asked))


async def cluster(asked: Asked) -> Response:
    """Nodes, buckets, and the partitions that move."""
    image = asked.store.image
    moving = [
        (topic.name, number, partition.leader, partition.target)
        for topic in image.topics.values()
        for number, partition in enumerate(topic.partitions)
        if partition.target != NO_NODE
    ]
    listed = bucket_list_of(image)
    space = await asked.store.run(asked.store.context.space)
    return asked.page(
        "cluster.html", nodes=node_views(image), buckets=listed.buckets, strategy=listed.strategy,
        objects=objects_summary(image), moving=sorted(moving)[:CONSOLE_ROWS_MAX], spaces=space.spaces,
    )  # fmt: skip


async def _values(asked: Asked) -> dict[str, Any]:
    store, image, now_ms = asked.store, asked.store.image, asked.store.now_ms()
    topics = topic_counts(image, asked.visitor.sees, now_ms)
    shown = [each for each in topics if not each.is_internal]
    space = await store.run(store.context.space)
    rates = store.history.rates()
    fastest = sorted(shown, key=lambda each: -each.grown_bytes)[:FASTEST]
    return {
        "topics": shown,
        "partitions": sum(each.partitions for each in shown),
        "records": sum(each.records for each in shown),
        "objects": objects_summary(image),
        "nodes": node_views(image),
        "spaces": space.spaces,
        "problems": problems(
            image, now_ms, asked.visitor.sees, space.spaces, store.context.metadata.read_only_note
        ),
        "fastest": [(each, store.history.records_per_second(each.topic_id)) for each in fastest],
        "traffic": Markup(  # noqa: S704  the chart escapes its texts
            charts.line_chart(
                "Committed to objects, bytes a second",
                [(at_ms, size) for at_ms, _, size in rates],
                lambda value: f"{size_words(round(value))}/s",
            )
        ),
    }
