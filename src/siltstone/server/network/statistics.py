"""What the network has done and holds, as one frozen value.

Why connections end: what is counted, and what the log says.
"""

from collections import Counter
from enum import StrEnum

import msgspec


class CloseReason(StrEnum):
    PEER = "peer"
    """The client closed it, as clients do."""
    LOST = "lost"
    """It broke."""
    IDLE = "idle"
    MALFORMED = "malformed"
    """What came is no frame: too large, negative, HTTP, TLS."""
    SLOW_REQUEST = "slow-request"
    """A frame that was begun was not whole in time."""
    SLOW_READER = "slow-reader"
    """Answers were not taken in time."""
    UNREAD_ANSWERS = "unread-answers"
    """It left more answers unread than anybody, when all together were too many."""
    REFUSED = "refused"
    """The broker had no other answer to a request."""
    FAILURE = "failure"
    """A bug: an exception that nobody expected."""
    TOO_MANY = "too-many"
    TOO_MANY_OF_HOST = "too-many-of-host"
    SHUTDOWN = "shutdown"


class NetworkStatistics(msgspec.Struct, frozen=True):
    """``closed``: by reason, since the start, refused connections among them. ``waiting_*``: connections in line."""

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


class NetworkCounters:
    """Sums since the start, kept by all connections."""

    def __init__(self) -> None:
        self.accepted = 0
        self.requests = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.closed: Counter[CloseReason] = Counter()
