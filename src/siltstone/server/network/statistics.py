"""The statistics of the network, with the reasons why connections were closed."""

from collections import Counter
from enum import StrEnum

import msgspec

from siltstone.model.access import ANONYMOUS
from siltstone.server.network.handshakes import HandshakeStatistics


class CloseReason(StrEnum):
    """Why a connection was closed."""

    PEER = "peer"
    """The client closed the connection."""
    LOST = "lost"
    """The connection broke."""
    IDLE = "idle"
    MALFORMED = "malformed"
    """The client sent bytes that are not a frame: an impossible size, HTTP or TLS."""
    SLOW_REQUEST = "slow-request"
    """The client did not complete a request in time."""
    SLOW_READER = "slow-reader"
    """The client did not read its answers in time."""
    UNREAD_ANSWERS = "unread-answers"
    """The unread answers of all connections were too large, and this connection's were the largest."""
    REFUSED = "refused"
    """The broker closes the connection because Kafka has no error response for the request."""
    HANDSHAKE = "handshake"
    """The handshake of TLS failed, took too long, or made no principal of the client's certificate."""
    LOGIN = "login"
    """The login failed, took too long, or there were too many connections that were not logged in."""
    SESSION_ENDED = "session-ended"
    """The user was removed, or its sessions were ended."""
    STALE = "stale"
    """The node could not read the metadata for too long, and users or rights may have changed."""
    FAILURE = "failure"
    """A bug: an unexpected exception."""
    TOO_MANY = "too-many"
    TOO_MANY_OF_HOST = "too-many-of-host"
    TOO_FEW_FILES = "too-few-files"
    """The process may not have many more files open, and the node needs these itself."""
    TOO_FAST = "too-fast"
    """The client's address made more connections in a second than the store's quotas allow."""
    SHUTDOWN = "shutdown"


REFUSALS = frozenset({
    CloseReason.HANDSHAKE, CloseReason.LOGIN, CloseReason.STALE, CloseReason.TOO_MANY, CloseReason.TOO_MANY_OF_HOST,
    CloseReason.TOO_FEW_FILES, CloseReason.TOO_FAST,
})  # fmt: skip
"""The reasons for which a peer is not let in. A node that ends lets nobody in either, and refuses nobody."""


class NetworkStatistics(msgspec.Struct, frozen=True):
    """What the network has done since the start, and what it holds now.

    ``closed`` counts closed connections by reason, including those refused at once. ``waiting_*`` are the numbers of
    connections in the waiting lines. ``of_listener``: listener → its open connections. ``refused``: (listener, reason)
    → the connections that ended with nobody let in, for a reason of REFUSALS.
    """

    connections: int
    accepted: int
    requests: int
    requests_in_flight: int
    request_bytes_in_flight: int
    unread_answer_bytes: int
    bytes_in: int
    bytes_out: int
    waiting_for_memory: int
    waiting_for_store: int
    waiting_for_readers: int
    closed: dict[CloseReason, int]
    of_listener: dict[str, int]
    refused: dict[tuple[str, CloseReason], int]
    handshakes: HandshakeStatistics


class NetworkCounters:
    """Sums since the start, which all connections update."""

    def __init__(self) -> None:
        self.accepted = 0
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.closed: Counter[CloseReason] = Counter()
        self.refused: Counter[tuple[str, CloseReason]] = Counter()

    def close(self, listener: str, reason: CloseReason) -> None:
        """Counts a connection of a listener that is closed."""
        self.closed[reason] += 1
        if reason in REFUSALS:
            self.refused[listener, reason] += 1


class ClientConnection(msgspec.Struct, frozen=True):
    """An open connection, as ``siltstone clients`` shows it. ``software`` and its version are what the client has sent
    in ApiVersions, empty if it sent none; ``connected_ms`` is in ms since 1970. ``principal``: whose login or
    certificate it has, User:ANONYMOUS without one."""

    client_id: str
    software: str
    software_version: str
    host: str
    port: int
    listener: str
    connected_ms: int
    principal: str = str(ANONYMOUS)
