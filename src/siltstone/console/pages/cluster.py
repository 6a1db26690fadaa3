"""The cluster: its nodes, buckets, moves and balance; and what moves a partition, or all that a plan names.

A plan is carried out as it was shown: the form has its moves, and a partition that has moved meanwhile is a refusal.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from siltstone.cluster.balancing.balancer import is_switched_on
from siltstone.cluster.balancing.carrying_out import carry_out, refuse_outdated
from siltstone.cluster.balancing.goals import Load
from siltstone.cluster.balancing.loads import plan_of
from siltstone.cluster.balancing.planning import BalancePlan, PlannedMove
from siltstone.console import charts
from siltstone.console.application import Asked, PageRefused, number_of
from siltstone.console.facts import StoreFacts
from siltstone.console.pages.topics import topic_named
from siltstone.console.runs import RunOutcome, Says
from siltstone.console.store import ConsoleStore, moment_with_log
from siltstone.console.views.cluster import led_by, load_views, node_views
from siltstone.console.views.silences import Silence, all_silences, logged_silences
from siltstone.console.visitors import Visitor
from siltstone.foundation.quantity_words import counted, seconds_words
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.entities import NO_NODE
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.opening import newest_loads
from siltstone.model.console_limits import CONSOLE_PLAN_SECONDS_MAX, CONSOLE_ROWS_MAX

MORE_COUNTED_MAX = 100
"""People want to know whether it is few or many; counting further moves of thousands of partitions takes seconds."""

NO_LOAD = Load()


async def cluster(asked: Asked) -> Response:
    """Nodes, buckets, and the partitions that move; the balance is loaded afterwards."""
    facts = await asked.facts()
    image = facts.image
    listed = bucket_list_of(image)
    return asked.page(
        "cluster.html", nodes=node_views(image, facts.moves), buckets=listed.buckets, strategy=listed.strategy,
        objects=facts.objects, balances=is_switched_on(image), **_moves(asked, facts), **_led(asked, image),
    )  # fmt: skip


def _led(asked: Asked, image: MetadataImage) -> dict[str, Any]:
    """Returns the partitions that the node of ``node`` leads, by topic; None without one."""
    node_id = number_of(asked.query("node"))
    if node_id is None:
        return {"led_by": "", "led": None}
    found = led_by(image, node_id, asked.visitor.sees)
    return {"led_by": node_id, "led": found[:CONSOLE_ROWS_MAX]}


async def moves(asked: Asked) -> Response:
    """The part with the moves under way, which is loaded again every few seconds."""
    return asked.page("cluster_moves.html", **_moves(asked, await asked.facts()))


def _moves(asked: Asked, facts: StoreFacts) -> dict[str, Any]:
    return {"moving": facts.moves[:CONSOLE_ROWS_MAX], "newest_run": asked.store.runs.newest}


async def failovers(asked: Asked) -> Response:
    """The silences of nodes as a timeline: a part of the page, which reads the log of the metadata."""
    store, now_ms = asked.store, asked.store.now_ms()
    logged = await asked.run(partial(_logged, store), CONSOLE_PLAN_SECONDS_MAX)
    found = all_silences(logged, store.silences)

    def words(each: Silence) -> str:
        length = seconds_words(each.seconds(now_ms))
        return f"node {each.node_id}, {'about ' * each.is_rough}{length}: {each.ended or 'still silent'}"

    drawing = Markup(charts.silence_timeline(found, now_ms, words))  # noqa: S704  the chart escapes its texts
    return asked.page("cluster_failovers.html", silences=found, drawing=drawing)


def _logged(store: ConsoleStore) -> list[Silence]:
    return logged_silences(moment_with_log(store, store.image, commits=tuple).entries())


async def balance(asked: Asked) -> Response:
    """The load of each node, and what a balance would move and why: a part of the page."""
    made = await asked.run(partial(_plan, asked.store))
    return asked.page(
        "cluster_balance.html", loads=load_views(made), moves=made.moves, why_empty=made.why_empty,
        more=made.more_wanted, more_max=MORE_COUNTED_MAX, encoded=_encoded(made.moves),
    )  # fmt: skip


async def balance_now(asked: Asked) -> Response:
    """Carries out the moves of the plan that was shown, in turns, while the page is shown."""
    moves = _moves_of(asked.store.image, asked.form.get("moves", ""))
    refuse_outdated(asked.store.image, moves)
    work = partial(_balanced, asked.store, asked.visitor, moves)
    asked.store.runs.begin(f"a balance of {counted(len(moves), 'partition')}", work)
    return RedirectResponse("/cluster", 303)


async def move(asked: Asked) -> Response:
    """Moves one partition from the node that the page has shown to another one."""
    name, number = asked.form.get("topic", ""), number_of(asked.form.get("partition", ""))
    topic = topic_named(asked, name)
    leader, node_id = number_of(asked.form.get("from", "")), number_of(asked.form.get("to", ""))
    if number is None or number >= len(topic.partitions) or node_id not in asked.store.image.nodes:
        raise PageRefused(400, f"{name} has no such partition, or the cluster no node {asked.form.get('to')}")
    assert node_id is not None
    found = topic.partitions[number].leader
    if found != (NO_NODE if leader is None else leader):
        raise PageRefused(409, f"{name}-{number} has another leader by now: look at the partition again")
    await asked.run(partial(asked.store.move, asked.visitor, ((topic.topic_id, number, node_id),)))
    await asked.store.refresh()
    return RedirectResponse(f"/topics/{quote(name, safe='')}/partitions/{number}", 303)


def _plan(store: ConsoleStore) -> BalancePlan:
    """Reads what the brokers have measured, in a thread. Raises BoardUnavailable."""
    loads = newest_loads(store.settings.metadata, store.context.clock)
    return plan_of(store.image, loads, store.now_ms(), more_max=MORE_COUNTED_MAX)


def _balanced(store: ConsoleStore, visitor: Visitor, moves: Sequence[PlannedMove], says: Says) -> RunOutcome:
    arrived = 0

    def told(turn: tuple[PlannedMove, ...]) -> None:
        nonlocal arrived
        arrived += len(turn)
        says(f"{arrived} of {counted(len(moves), 'partition')} moved")

    carry_out(
        moves,
        lambda turn: store.move(visitor, [(each.topic_id, each.partition, each.target) for each in turn]),
        store.newest_image,
        store.context.clock,
        told,
    )
    return RunOutcome(f"{counted(arrived, 'partition')} moved")


def _encoded(moves: Sequence[PlannedMove]) -> str:
    return ",".join(f"{each.topic_id}:{each.partition}:{each.source}:{each.target}" for each in moves)


def _moves_of(image: MetadataImage, text: str) -> list[PlannedMove]:
    """Parses what ``_encoded`` wrote. Raises PageRefused."""
    moves = []
    for part in text.split(","):
        topic_id, _, rest = part.partition(":")
        topic = image.topics.get(topic_id)
        match [number_of(each) for each in rest.split(":")]:
            case [int(partition), int(source), int(target)] if topic is not None:
                moves.append(PlannedMove(topic_id, topic.name, partition, source, target, NO_LOAD, ""))
            case _:
                raise PageRefused(409, "the plan that was shown names a topic that is gone: look at it again")
    return moves
