"""The overview, what the store holds, how it grows, and what is wrong."""

from heapq import nlargest
from typing import Any

from markupsafe import Markup
from starlette.responses import Response

from siltstone.console import charts
from siltstone.console.application import Asked
from siltstone.console.views.cluster import node_views
from siltstone.console.views.problems import problems
from siltstone.foundation.quantity_words import size_words

FASTEST = 6


async def overview(asked: Asked) -> Response:
    """The whole page."""
    return asked.page("overview.html", **await _values(asked))


async def overview_live(asked: Asked) -> Response:
    """The part that is loaded again every few seconds."""
    return asked.page("overview_live.html", **await _values(asked))


async def _values(asked: Asked) -> dict[str, Any]:
    store, now_ms = asked.store, asked.store.now_ms()
    facts = await asked.facts()
    image = facts.image
    shown = [each for each in await asked.seen_topics() if not each.is_internal]
    of_cluster = asked.visitor.describes_cluster
    spaces = (await store.run(store.context.space)).spaces if of_cluster else ()
    rates = store.history.rates() if of_cluster else []
    fastest = nlargest(FASTEST, shown, key=lambda each: each.grown_bytes)
    return {
        "topics": shown,
        "partitions": sum(each.partitions for each in shown),
        "records": sum(each.records for each in shown),
        "objects": facts.objects,
        "nodes": node_views(image, facts.moves) if of_cluster else [],
        "of_cluster": of_cluster,
        "spaces": spaces,
        "problems": problems(
            image,
            now_ms,
            asked.visitor.sees,
            spaces,
            store.context.metadata.read_only_note,
            facts.tables,
            facts.oldest,
            of_cluster=of_cluster,
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
