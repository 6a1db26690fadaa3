"""What the network has done and holds, as one frozen value."""

from collections import Counter

import msgspec

from siltstone.server.network.close_reason import CloseReason


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
