"""What a store says of its level: the level, what each node runs, and until when one can go back, to what."""

from collections.abc import Sequence

import msgspec

from siltstone.cli.nodes.listing import ENDED_TOGETHER, node_rows
from siltstone.metadata.entities import NodeLife
from siltstone.metadata.features import FEATURES, final_level
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.leases.board import Beat
from siltstone.metadata.levels import FIRST_LEVEL, LEVELS, known_level, newest_level, program_of_node
from siltstone.model.version import VERSION


class NodeStanding(msgspec.Struct, frozen=True):
    """``version`` and ``since_ms`` are None for a program that does not tell them: it is older than levels."""

    node_id: int
    state: str
    version: str | None
    since_ms: int | None
    level: int
    counts: bool
    """Whether the node has to know a level before the store is raised to it."""


class WayBack(msgspec.Struct, frozen=True):
    """Which programs can take the place of the running ones. ``until_level``: the level that ends it, which an
    operator raises; None if this program knows no higher one. ``metadata_version``: the newest version of the metadata
    that older programs can read, from a backup; None for a store that was never raised."""

    level: int
    program: str
    until_level: int | None
    metadata_version: int | None


class StoreStanding(msgspec.Struct, frozen=True):
    program: str
    newest_level: int
    level: int
    raised_by: str | None
    raised_ms: int | None
    nodes: tuple[NodeStanding, ...]
    features: dict[str, int]
    way_back: WayBack

    @property
    def too_old(self) -> tuple[NodeStanding, ...]:
        """The nodes that have to be replaced before the level can be raised to the newest one."""
        return tuple(node for node in self.nodes if node.counts and node.level < self.newest_level)


def standing_of(image: MetadataImage, beats: Sequence[Beat], now_ms: int) -> StoreStanding:
    newest = newest_level()
    return StoreStanding(
        program=VERSION,
        newest_level=newest,
        level=image.level.number,
        raised_by=image.level.program or None,
        raised_ms=image.level.raised_ms or None,
        nodes=tuple(_nodes(image, beats, now_ms)),
        features={name: final_level(image, name) for name in FEATURES if final_level(image, name)},
        way_back=WayBack(
            level=image.level.number,
            program=LEVELS[image.level.number].program,
            until_level=newest if image.level.number < newest else None,
            metadata_version=image.level.version - 1 if image.level.number > FIRST_LEVEL else None,
        ),
    )


def _nodes(image: MetadataImage, beats: Sequence[Beat], now_ms: int) -> list[NodeStanding]:
    found = []
    for row in node_rows(image, beats, now_ms):
        node = image.nodes[row.node_id]
        program = program_of_node(image, node.life)
        found.append(
            NodeStanding(
                node_id=row.node_id,
                state=row.state,
                version=None if program is None else program.version,
                since_ms=None if program is None else program.since_ms,
                level=known_level(image, node.life),
                counts=node.is_live and row.state != ENDED_TOGETHER,
            )
        )
    return found


def ended_lives(image: MetadataImage, beats: Sequence[Beat], now_ms: int) -> tuple[NodeLife, ...]:
    """Returns the lives of nodes that have ended all together, so that none runs that would have fenced the others."""
    return tuple(
        image.nodes[row.node_id].life
        for row in node_rows(image, beats, now_ms)
        if row.state == ENDED_TOGETHER
    )
