"""The decision that raises the level of the store. Which records wait for a level: ``table``."""

from collections.abc import Sequence

from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.entities import NodeMetadata
from siltstone.metadata.image import ImageView
from siltstone.metadata.levels import (
    LEVELS,
    RaiseLevel,
    known_level,
    newest_level,
    program_of_node,
)
from siltstone.metadata.records import LevelRaised
from siltstone.metadata.refusals import LevelNeverFalls, LevelNotKnown, NodesTooOld


def decide_raise_level(view: ImageView, command: RaiseLevel, now_ms: int) -> Decision[int]:
    standing = view.level
    if command.level > newest_level() or command.level < min(LEVELS):
        raise LevelNotKnown(
            f"this program knows levels {min(LEVELS)} to {newest_level()}, and not {command.level}: install a newer "
            "one"
        )
    if command.level < standing.number:
        raise LevelNeverFalls(
            f"the store has level {standing.number}, and a level never falls: records that older programs cannot "
            f"decode may be in it. To go back, restore a backup of version {standing.version - 1} of the metadata, or "
            "an earlier one"
        )
    if command.level == standing.number:
        return Decision((), standing.number)
    if old := nodes_too_old(view, command):
        raise NodesTooOld(_said(view, command, old), tuple(node.node_id for node in old))
    return Decision((LevelRaised(command.level, command.program, now_ms),), command.level)


def nodes_too_old(view: ImageView, command: RaiseLevel) -> list[NodeMetadata]:
    """Returns the live nodes whose programs do not know the level, by id."""
    return [
        node
        for _, node in sorted(view.nodes.items())
        if node.is_live and node.life not in command.ended and known_level(view, node.life) < command.level
    ]


def _said(view: ImageView, command: RaiseLevel, old: Sequence[NodeMetadata]) -> str:
    programs = "; ".join(_runs(view, node) for node in old)
    return (
        f"the store stays at level {view.level.number}: {programs}. Install siltstone {LEVELS[command.level].program} "
        "or newer there, restart, and repeat this; siltstone status shows what each node runs"
    )


def _runs(view: ImageView, node: NodeMetadata) -> str:
    program = program_of_node(view, node.life)
    version = "a version before levels" if program is None else f"siltstone {program.version}"
    return f"node {node.node_id} runs {version} and knows level {known_level(view, node.life)}"
