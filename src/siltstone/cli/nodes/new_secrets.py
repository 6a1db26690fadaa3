"""``siltstone nodes new-secrets``: every live node gets another secret, the proof of who it is.

The command asks for it in the metadata, watches the lease board until each live node has put another secret there, and
then ends what is open between nodes: it was proved by the old secrets. Nodes connect again by the new ones.
"""

import click

from siltstone.cli.output import results
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.cli.words import counted
from siltstone.metadata.commands import PutKey
from siltstone.metadata.leases.board import LeaseBoard, time_of
from siltstone.metadata.node_address import NODE_SECRETS_KEY
from siltstone.metadata.opening import open_board
from siltstone.metadata.users import EndSessions
from siltstone.model.access import NODE
from siltstone.model.errors import InvalidRequest, Unavailable
from siltstone.model.limits import SECOND_MS
from siltstone.offline.opening.store import Store
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import random_token, system_randomness

LOOK_INTERVAL_MS = 200
NEW_SECRETS_MS_MAX = 30 * SECOND_MS
"""Nodes look each second."""


BEAT_MS_MAX = 10 * SECOND_MS
"""A node whose newest beat is older does not run, or is being fenced: two sessions."""


NOBODY = "no node runs: each makes a new secret when it starts"


class NoRunningNode(InvalidRequest):
    """No node runs: the next start of each makes a new secret by itself."""


class SecretKept(Unavailable):
    """A live node has not made a new secret in time: it may be silent, or of an older version."""


@click.command("new-secrets")
@store_options
def new_secrets(choice: StoreChoice) -> None:
    """Give every live node a new secret.

    By its secret a node proves to another one that it is a node. Secrets are new with each start; use this when
    somebody may have read them. It takes a second or two, and clients notice nothing:
    requests between nodes are repeated.
    """
    clock = SystemClock()
    board = open_board(choice.settings().metadata, clock)
    try:
        with choice.open() as store:
            number = renew(store, board, clock)
    finally:
        board.close()
    results().print(f"{counted(number, 'node')} made a new secret; the old ones prove nothing any more.")


def renew(store: Store, board: LeaseBoard, clock: Clock) -> int:
    """Returns how many nodes have made a new secret. Raises NoRunningNode, SecretKept, BoardUnavailable."""
    if not _running(store, board, clock):
        raise NoRunningNode(NOBODY)
    before = {row.secret.revealed() for row in board.secrets()}
    token = random_token(system_randomness())
    store.metadata.execute(PutKey(NODE_SECRETS_KEY, token.encode(), overwrite=True))
    deadline_ms = clock.monotonic_ms() + NEW_SECRETS_MS_MAX
    while True:
        renewed = {row.node_id for row in board.secrets() if row.secret.revealed() not in before}
        store.metadata.refresh()
        if not (left := _running(store, board, clock) - renewed):
            break
        if clock.monotonic_ms() >= deadline_ms:
            raise SecretKept(
                f"these nodes have not made a new secret in {NEW_SECRETS_MS_MAX // SECOND_MS} s: {sorted(left)}: they "
                "may be of an older version: restart them"
            )
        clock.block_ms(LOOK_INTERVAL_MS)
    if not renewed:  # they have ended a moment ago
        raise NoRunningNode(NOBODY)
    store.metadata.execute(EndSessions(str(NODE)))
    return len(renewed)


def _running(store: Store, board: LeaseBoard, clock: Clock) -> set[int]:
    """Returns the live nodes with a new beat."""
    live = {node.node_id for node in store.metadata.image.nodes.values() if node.is_live}
    now_ms = clock.now_ms()
    beats = [(beat.node_id, time_of(beat)) for beat in (board.beats() if live else ())]
    return {
        node_id
        for node_id, time_ms in beats
        if node_id in live and time_ms is not None and now_ms - time_ms < BEAT_MS_MAX
    }
