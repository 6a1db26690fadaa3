"""Defines the port of the lease board, and its adapter in memory.

The board has one row for each node id: the newest beat that arrived, from whichever process sent it. Readers compare
epoch and incarnation with the image. The board does not order beats and proves nothing about a node; rows may be lost
with the machine. Beside the beats it has the load that each node measured, for balancing, and a secret of each life, by
which nodes prove themselves to each other. The secrets stand here and not in the metadata log, because every program
that reads the log would be a node then; and they are as short-lived as the board.
"""

import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

import msgspec

from siltstone.model.errors import Unavailable
from siltstone.model.secret import Secret

BOARD_DEADLINE_MS = 2_000
"""The longest time that a call to the board may take: less than half a session, so that one slow call costs no node its
lease."""


class BoardUnavailable(Unavailable):
    """The board did not answer in time, or cannot be opened. A beat may have been written all the same."""


ENDED = ""
"""Stands in place of the incarnation in the last beat of a node that has ended cleanly."""


class Beat(msgspec.Struct, frozen=True):
    """A life is named by ``node_epoch`` and ``incarnation``. ``number`` is the time in ms since 1970 by the clock of
    the metadata log, or the previous number plus one if that is larger. Nodes only check whether it has changed; the
    time is for display (``time_of``)."""

    node_id: int
    node_epoch: int
    number: int
    incarnation: str


EARLIEST_MS = 1_600_000_000_000
"""A time in 2020. Lower numbers are counts of beats, which older versions wrote."""


def time_of(beat: Beat) -> int | None:
    """Returns the time of the beat by the clock of its node; None for a beat of an older version."""
    return beat.number if beat.number >= EARLIEST_MS else None


class PartitionLoad(msgspec.Struct, frozen=True, array_like=True):
    """The load of a partition in a second, as a mean of the last minute: bytes, and requests of clients."""

    topic_id: str
    index: int
    bytes_in: float
    bytes_out: float
    requests: float


class NodeLoad(msgspec.Struct, frozen=True, array_like=True):
    """The loads that a node measured of the partitions that it leads: the heaviest ones, and the sums of all others
    (bytes in, bytes out, requests). ``written_ms``: by the clock of the metadata log."""

    node_id: int
    node_epoch: int
    written_ms: int
    partitions: tuple[PartitionLoad, ...] = ()
    others: tuple[float, float, float] = (0.0, 0.0, 0.0)


class NodeSecret(msgspec.Struct, frozen=True):
    """What only the nodes of a store know of one life of a node: random bytes, written in hexadecimal digits."""

    node_id: int
    node_epoch: int
    incarnation: str
    secret: Secret


def encode_load(load: NodeLoad) -> bytes:
    return msgspec.msgpack.encode(load)


def decode_loads(rows: Iterable[bytes]) -> tuple[NodeLoad, ...]:
    """Decodes the loads. A row that cannot be decoded, because another version wrote it or a file was damaged, is left
    out: a new measurement follows within seconds."""
    found: list[NodeLoad] = []
    for row in rows:
        with suppress(msgspec.MsgspecError):
            found.append(msgspec.msgpack.decode(row, type=NodeLoad))
    return tuple(found)


class LeaseBoard(Protocol):
    """All calls block for at most BOARD_DEADLINE_MS if the machine's disks answer. In case they do not, a caller sets a
    deadline of its own, and calls from a thread that does nothing else."""

    def beat(self, beat: Beat) -> None:
        """Replaces the node's row. Raises BoardUnavailable."""
        ...

    def beats(self) -> tuple[Beat, ...]:
        """Returns all rows, sorted by node id. Raises BoardUnavailable."""
        ...

    def put_load(self, load: NodeLoad) -> None:
        """Replaces the loads that the node measured before. Raises BoardUnavailable."""
        ...

    def loads(self) -> tuple[NodeLoad, ...]:
        """Returns the loads that each node measured last, sorted by node id. Raises BoardUnavailable."""
        ...

    def put_secret(self, secret: NodeSecret) -> None:
        """Replaces the secret of the node's earlier life. Raises BoardUnavailable."""
        ...

    def secrets(self) -> tuple[NodeSecret, ...]:
        """Returns all secrets, sorted by node id. Raises BoardUnavailable."""
        ...

    def forget(self, node_id: int) -> None:
        """Removes the rows of a node that was unregistered, if there are any. Raises BoardUnavailable."""
        ...

    def close(self) -> None: ...


class MemoryBoard:
    """A board for the nodes of one process: tests and simulations."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[int, Beat] = {}
        self._loads: dict[int, NodeLoad] = {}
        self._secrets: dict[int, NodeSecret] = {}

    def beat(self, beat: Beat) -> None:
        with self._lock:
            self._rows[beat.node_id] = beat

    def beats(self) -> tuple[Beat, ...]:
        with self._lock:
            return tuple(self._rows[node_id] for node_id in sorted(self._rows))

    def put_load(self, load: NodeLoad) -> None:
        with self._lock:
            self._loads[load.node_id] = load

    def loads(self) -> tuple[NodeLoad, ...]:
        with self._lock:
            return tuple(self._loads[node_id] for node_id in sorted(self._loads))

    def put_secret(self, secret: NodeSecret) -> None:
        with self._lock:
            self._secrets[secret.node_id] = secret

    def secrets(self) -> tuple[NodeSecret, ...]:
        with self._lock:
            return tuple(self._secrets[node_id] for node_id in sorted(self._secrets))

    def forget(self, node_id: int) -> None:
        with self._lock:
            for rows in (self._rows, self._loads, self._secrets):
                rows.pop(node_id, None)

    def close(self) -> None:
        return None
