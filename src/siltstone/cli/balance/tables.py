"""The tables and the JSON of ``siltstone balance``."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from siltstone.cli.output import table
from siltstone.cli.words import cell, count_words, size_words
from siltstone.cluster.balancing.goals import Load
from siltstone.cluster.balancing.planning import BalancePlan, PlannedMove


def loads_table(before: Mapping[int, Load], after: Mapping[int, Load] | None = None) -> RenderableType:
    """``after``: adds the loads that the plan would bring about."""
    shown = table(">broker", ">partitions", ">bytes in", ">bytes out", ">requests")
    for node_id in sorted(before):
        rows = [load[node_id] for load in (before, after) if load is not None]
        shown.add_row(
            str(node_id),
            _changed([count_words(round(load.partitions)) for load in rows]),
            _changed([f"{size_words(round(load.bytes_in))}/s" for load in rows]),
            _changed([f"{size_words(round(load.bytes_out))}/s" for load in rows]),
            _changed([f"{load.requests:,.0f}/s" for load in rows]),
        )
    return shown


def _changed(words: Sequence[str]) -> str:
    return words[0] if len(set(words)) == 1 else " → ".join(words)


def moves_table(moves: Sequence[PlannedMove]) -> RenderableType:
    shown = table("partition", ">from", ">to", "because")
    for move in moves:
        shown.add_row(
            cell(f"{move.topic}-{move.partition}"), str(move.source), str(move.target), cell(move.reason)
        )
    return shown


def plan_json(plan: BalancePlan) -> dict[str, Any]:
    return {
        "why_empty": plan.why_empty,
        "moves": [
            {
                "topic": move.topic,
                "partition": move.partition,
                "from": move.source,
                "to": move.target,
                "reason": move.reason,
                **_numbers(move.load),
            }
            for move in plan.moves
        ],
        "more_wanted": plan.more_wanted,
        "brokers": [
            {"node_id": node_id, "before": _all(plan.before[node_id]), "after": _all(plan.after[node_id])}
            for node_id in sorted(plan.before)
        ],
    }


def _numbers(load: Load) -> dict[str, float]:
    return {
        "bytes_in_per_s": load.bytes_in,
        "bytes_out_per_s": load.bytes_out,
        "requests_per_s": load.requests,
    }


def _all(load: Load) -> dict[str, float]:
    return {"partitions": round(load.partitions), **_numbers(load)}
