"""How a broker asks the other nodes of its store: ``Peers``, a port whose adapter has the sockets
(``server.peers``).

A connection between nodes has proved both ends before its first request, whatever the listener speaks; so no request
between nodes carries a proof of its own. What a node may ask is a table: ``security.node_rights``.
"""

from collections.abc import Collection
from typing import Protocol, TypeVar

from siltstone.kafka_protocol.notation import Message
from siltstone.model.errors import Unavailable

M = TypeVar("M", bound=Message)

PEER_TIME_LIMIT_MS = 10_000
"""How long a node waits for an answer of another one. Two sessions: by then a node that is dead was fenced, and its
partitions are led elsewhere."""


class PeerUnreachable(Unavailable):
    """Another node did not answer, or the two could not prove to each other who they are. What was asked may have been
    done. ``node_id``: the node that was asked."""

    def __init__(self, node_id: int, reason: str) -> None:
        self.node_id = node_id
        self.reason = reason
        super().__init__(f"node {node_id} cannot be asked: {reason}; it is tried again")


class Peers(Protocol):
    async def ask(
        self, node_id: int, request: Message, answer: type[M], time_limit_ms: float = PEER_TIME_LIMIT_MS
    ) -> M:
        """Sends a request to a live node of the store, in the highest version that both nodes speak, and returns its
        answer. Requests to one node begin in the order of the calls, and are answered in any order.
        Raises PeerUnreachable."""
        ...

    def unreachable(self) -> Collection[int]:
        """Returns the live nodes that could not be reached when this node last tried."""
        ...


class UnknownPeers:
    """Of a broker without other nodes."""

    async def ask(
        self, node_id: int, request: Message, answer: type[M], time_limit_ms: float = PEER_TIME_LIMIT_MS
    ) -> M:
        raise PeerUnreachable(node_id, "this broker knows no other nodes")

    def unreachable(self) -> Collection[int]:
        return ()
