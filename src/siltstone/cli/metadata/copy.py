"""``siltstone metadata copy --to URL``: moves the metadata of a store to PostgreSQL."""

from contextlib import closing

import click

from siltstone.cli.output import remark, result
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.cli.words import counted
from siltstone.metadata.copying import copy_log
from siltstone.metadata.leases.board import LeaseBoard
from siltstone.metadata.opening import open_board, open_copy
from siltstone.metadata.store.opening import shown_url
from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.store import open_metadata_log
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import system_randomness

WATCHED_MS = 3_000
"""A node beats once a second: one that lives has beaten twice."""


class NodesLive(InvalidRequest):
    """Nodes of the store are running. ``node_ids``: which."""

    def __init__(self, node_ids: tuple[int, ...]) -> None:
        self.node_ids = node_ids
        super().__init__(
            f"node {', '.join(map(str, node_ids))} of the store is running; stop every node of the store, then repeat "
            "the command"
        )


@click.command()
@click.option(
    "--to", "url", required=True, metavar="URL", help="postgresql://user@host/database?schema=NAME, an empty schema."
)  # fmt: skip
@store_options
def copy(choice: StoreChoice, url: str) -> None:
    """Move the metadata of a store to PostgreSQL.

    Stop every node and all maintenance of the store first. Objects and write-ahead logs stay where they are. The old
    metadata is kept, but cannot be opened any more: a program that tries is refused with the new URL.

    A copy that was interrupted changes nothing, or is completed when the command is repeated.
    """
    settings = choice.settings()
    clock = SystemClock()
    new = open_copy(url, clock)
    with closing(new), closing(open_metadata_log(settings, clock, create=False)) as old:
        with closing(open_board(settings.metadata, clock)) as board:
            _refuse_beside_nodes(board, clock)
        copied = copy_log(old, new, shown_url(url), clock, system_randomness(), on_step=remark)
    image = copied.image
    held = f"version {image.version}: {counted(len(image.topics), 'topic')}, {counted(len(image.objects), 'object')}"
    before = " before" if copied.was_done else ""
    result(f"The metadata was moved to {shown_url(url)}{before} ({held}).")
    result(f"Start programs with --metadata URL from now on, or set in {settings.folder / 'siltstone.toml'}:")
    result(f'metadata = "{shown_url(url)}"')


def _refuse_beside_nodes(board: LeaseBoard, clock: Clock) -> None:
    """Raises NodesLive if a node beats, BoardUnavailable."""
    remark("looking for nodes that run")
    before = set(board.beats())
    clock.block_ms(WATCHED_MS)
    if alive := tuple(beat.node_id for beat in board.beats() if beat not in before):
        raise NodesLive(alive)
