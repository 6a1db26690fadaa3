"""What the store costs a month, by topic, with what maintenance saved and what a shorter retention would save."""

import shlex
from functools import partial

from starlette.responses import Response

from siltstone.console.application import Asked, PageRefused
from siltstone.console.store import ConsoleStore, moment_with_log
from siltstone.costing.estimate import CostEstimate, estimate_cost, total_of
from siltstone.costing.retention import retention_savings
from siltstone.model.console_limits import CONSOLE_PLAN_SECONDS_MAX, CONSOLE_ROWS_MAX
from siltstone.offline.opening.values import Unit, written_quantity


async def cost(asked: Asked) -> Response:
    """The page: ``retention`` shows what it would save."""
    text = asked.query("retention").strip()
    retention_ms = written_quantity(Unit.MILLISECONDS, text) if text else None
    if text and retention_ms is None:
        raise PageRefused(400, f"{text!r} is no time: write 12h or 7d")
    store, image, now_ms = asked.store, asked.store.image, asked.store.now_ms()
    found = await asked.run(partial(_estimated, store), CONSOLE_PLAN_SECONDS_MAX)
    rows = [each for each in found.rows if each.topic is None or asked.visitor.sees(each.topic)]
    savings = [] if retention_ms is None else retention_savings(image, retention_ms, now_ms, store.prices)
    command = f"siltstone cost {store.place}" + (f" --retention {shlex.quote(text)}" if text else "")
    return asked.page(
        "cost.html",
        rows=rows[:CONSOLE_ROWS_MAX],
        total=total_of(rows),
        known=sum(each.known for each in rows),
        found=found,
        savings=[each for each in savings if asked.visitor.sees(each.topic)][:CONSOLE_ROWS_MAX],
        retention=text,
        command_line=command,
    )


def _estimated(store: ConsoleStore) -> CostEstimate:
    """Reads the log of the metadata, in a thread."""
    image = store.image
    entries = moment_with_log(store, image, commits=tuple).entries()
    return estimate_cost(image, entries, store.now_ms(), store.prices)
