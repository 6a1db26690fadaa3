"""The level of a store: which formats may be in its metadata, and so which programs may open it.

A *level* is a number. Each program has a table of the levels that it knows, and for each what it brings. A store has
one level, which ``siltstone upgrade`` raises; it never falls. Below a level nothing is written that belongs to it: so
the programs of all nodes can be exchanged one after the other, and back again, until the level is raised. A program
that finds a higher level than it knows stops by name, before it has decoded what it does not know, and writes nothing.

Levels build on ``features``: a node tells its level as it tells that of a feature of Kafka's protocol, and the level is
raised when every live node has it. They differ in who decides. Features are made final by the nodes, because clients
use them; a level ends the way back, so an operator makes it final. Decided in ``decisions.levels``.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from siltstone.metadata.commands import Command, PutKey
from siltstone.metadata.entities import NodeLife, StoreLevel
from siltstone.metadata.features import level_of_node
from siltstone.metadata.image import ImageDraft, ImageView
from siltstone.metadata.records import LevelRaised, Record
from siltstone.model.errors import InvalidRequest
from siltstone.model.version import VERSION

STORE_LEVEL = "store.level"
"""The name under which a node tells the newest level that it knows, among its features."""

FIRST_LEVEL = 1


class KnownLevel(msgspec.Struct, frozen=True):
    """``program`` is the first version that knows the level; ``records`` are written from this level on."""

    program: str
    brings: str
    records: frozenset[type[Record]] = frozenset()


LEVELS: dict[int, KnownLevel] = {
    1: KnownLevel("0.1.0", "a store that names no level"),
    2: KnownLevel(
        "0.1.0", "the store names its level, so a program that is too old for the next one says so by name"
    ),
}
"""Every level that this program knows. A new record that older programs cannot decode brings a row with it."""

PROGRAM_PREFIX = "node-program/"


class RaiseLevel(Command[int], frozen=True):
    """→ the level after the command (int). ``ended`` are lives of nodes that have ended, by their last beats, though
    no node runs that would have fenced them: they do not count as live. Refused with LevelNotKnown, LevelNeverFalls,
    NodesTooOld. Idempotent."""

    level: int
    program: str = VERSION
    ended: tuple[NodeLife, ...] = ()


class LevelUnknown(InvalidRequest):
    """The store has a level that this program does not know: nothing is read from it, and nothing written to it."""

    def __init__(self, level: StoreLevel) -> None:
        raised = datetime.fromtimestamp(level.raised_ms / 1000, UTC).strftime("%Y-%m-%d")
        super().__init__(
            f"the store has level {level.number}, to which siltstone {level.program} raised it on {raised}; "
            f"this program is siltstone {VERSION} and knows levels up to {newest_level()}. "
            f"Nothing was written: install siltstone {level.program} or newer"
        )
        self.level = level.number
        self.newest = newest_level()
        self.program = level.program


class NodeProgram(msgspec.Struct, frozen=True):
    """What a node runs: a version of the program, since when, and the newest level that it knows."""

    version: str
    since_ms: int
    level: int


def newest_level() -> int:
    return max(LEVELS)


def refuse_unknown_level(level: StoreLevel) -> None:
    """Raises LevelUnknown for a level that is newer than this program."""
    if level.number > newest_level():
        raise LevelUnknown(level)


def put_own_program(life: NodeLife, now_ms: int) -> PutKey:
    """Returns a command that says which version the node runs, in this life."""
    value = f"{life.node_epoch}:{now_ms}:{VERSION}"
    return PutKey(f"{PROGRAM_PREFIX}{life.node_id}", value.encode(), overwrite=True)


def known_level(image: ImageView, life: NodeLife) -> int:
    """Returns the newest level that the node knows in this life; the first one if it has told none."""
    return max(FIRST_LEVEL, level_of_node(image, life, STORE_LEVEL))


def program_of_node(image: ImageView, life: NodeLife) -> NodeProgram | None:
    """Returns what the node runs in this life; None if it has not told, as programs before levels never do."""
    told = image.keys.get(f"{PROGRAM_PREFIX}{life.node_id}")
    epoch, _, rest = ("" if told is None else told.decode()).partition(":")
    if epoch != str(life.node_epoch):
        return None
    since_ms, _, version = rest.partition(":")
    return NodeProgram(version, int(since_ms), known_level(image, life))


# -- applying ------------------------------------------------------------------------------------------------


def _level_raised(draft: ImageDraft, record: LevelRaised) -> None:
    assert record.level > draft.level.number, f"the store has level {draft.level.number} already"
    level = StoreLevel(record.level, record.program, record.raised_ms, draft.version)
    refuse_unknown_level(level)
    draft.level = level


LEVEL_APPLIERS: Mapping[type[Record], Callable[[ImageDraft, Any], None]] = {LevelRaised: _level_raised}
