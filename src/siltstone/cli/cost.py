"""``siltstone cost [TOPIC]``: what a store costs a month, by topic, and what would cost less."""

from contextlib import closing

import click

from siltstone.cli.output import print_json, remark, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell, size_words
from siltstone.costing.estimate import CostEstimate, CostRow, estimate_cost, total_of
from siltstone.costing.retention import RetentionSaving, retention_savings
from siltstone.foundation.quantity_words import count_words, duration_words
from siltstone.metadata.history import entries_after, oldest_entry
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import InvalidRequest, did_you_mean
from siltstone.offline.opening.store import open_metadata_log
from siltstone.offline.opening.values import Unit, written_quantity

NO_TOPIC = "(no topic)"


class CostRefused(InvalidRequest):
    """The topic does not exist, or the retention time is none."""


@click.command()
@click.argument("topic", required=False)
@click.option("--retention", metavar="TIME", help="Show what this retention time would save, such as 7d.")
@click.option(
    "--cores", type=click.IntRange(min=1), metavar="N", help="Cores of all brokers together [one each]."
)
@json_option
@store_options
def cost(
    choice: StoreChoice, topic: str | None, retention: str | None, cores: int | None, as_json: bool
) -> None:
    """Estimate what a store costs a month, by topic.

    Storage follows from the bytes that topics have in objects, requests and compute from the objects and jobs that the
    metadata log still has. Requests of a store that is younger than an hour are not known yet. Prices are settings
    (admin.prices.*). The estimate names its assumptions, and says what maintenance has saved. No broker is asked.
    """
    retention_ms = None if retention is None else written_quantity(Unit.MILLISECONDS, retention)
    if retention is not None and retention_ms is None:
        raise CostRefused(f"--retention {retention!r}: write a time such as 12h or 7d")
    prices = choice.settings().admin.prices.of_costs
    with choice.open() as store:
        image, now_ms = store.metadata.refresh(), store.context.now_ms()
        _refuse_unknown(topic, image)
        with closing(open_metadata_log(store.settings, store.context.clock, create=False)) as log:
            entries = entries_after(log, oldest_entry(log) - 1, image.version)
            found = estimate_cost(image, entries, now_ms, prices, cores or 0)
    rows = [each for each in found.rows if topic in (None, each.topic)]
    savings = [] if retention_ms is None else retention_savings(image, retention_ms, now_ms, prices)
    savings = [each for each in savings if topic in (None, each.topic)]
    if as_json:
        print_json(_document(found, rows, savings))
    else:
        _print(found, rows, savings, retention_ms)


def _refuse_unknown(topic: str | None, image: MetadataImage) -> None:
    if topic is not None and topic not in image.topic_ids:
        hint = did_you_mean(topic, image.topic_ids, "siltstone cost without a topic lists all")
        raise CostRefused(f"there is no topic {topic}: {hint}")


def _document(found: CostEstimate, rows: list[CostRow], savings: list[RetentionSaving]) -> dict[str, object]:
    return {
        "total": total_of(rows),
        "topics": [
            {
                "topic": each.topic, "stored_bytes": each.stored_bytes, "storage": each.storage,
                "requests": each.requests, "compute": each.compute, "total": each.total,
            }
            for each in rows
        ],
        "saved_by_maintenance": {
            "freed_bytes": found.work.freed_bytes, "storage": found.saved_storage,
            "merged_objects": found.work.merged_objects, "reads": found.saved_reads,
        },
        "retention": savings,
        "window_ms": found.work.window_ms,
        "counted_seconds": found.work.window_ms // 1000,
        "assumptions": found.assumptions,
    }  # fmt: skip


def _print(
    found: CostEstimate, rows: list[CostRow], savings: list[RetentionSaving], retention_ms: int | None
) -> None:
    out = results()
    drawn = table("topic", ">stored", ">storage", ">requests", ">compute", ">a month")
    for each in rows:
        amounts = (each.storage, each.requests, each.compute, each.total)
        drawn.add_row(cell(each.topic or NO_TOPIC), size_words(each.stored_bytes), *map(_money, amounts))
    out.print(drawn)
    if retention_ms is not None:
        saving = table("topic", ">kept now", ">less", ">a month less")
        for one in savings:
            kept = "for ever" if one.retention_ms < 0 else duration_words(one.retention_ms)
            saving.add_row(cell(one.topic), kept, size_words(one.saved_bytes), _money(one.saved))
        out.print(saving)
    work = found.work
    if found.too_young:
        remark(f"Requests: {found.too_young}.")
    remark(
        f"Maintenance has freed {size_words(work.freed_bytes)}, {_money(found.saved_storage)} a month, and made "
        f"{count_words(work.merged_objects)} objects fewer."
    )
    for assumption in found.assumptions:
        remark(f"Assumed: {assumption}.")


def _money(amount: float | None) -> str:
    """An amount that is not known yet is a dash."""
    if amount is None:
        return "–"
    return f"{amount:,.2f}" if amount >= 1 else f"{amount:.4f}"
