"""The leaders that an answer to a member of a share group names, for partitions that it asked a wrong node for
(KIP-951)."""

from collections.abc import Sequence

from siltstone.broker.cluster_view import BrokerEndpoint
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import RequestContext
from siltstone.broker.shares.sessions import SharedPartition
from siltstone.kafka_protocol.error_code import ErrorCode

LEADERSHIP_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
NO_LEADER = (-1, -1)


class Hints:
    """``endpoints``: where the leaders are that ``leader`` has named so far."""

    def __init__(self, parts: BrokerParts, context: RequestContext) -> None:
        self._parts = parts
        self._listener = context.connection.listener
        self._by_node: dict[int, BrokerEndpoint] = {}

    @property
    def endpoints(self) -> Sequence[BrokerEndpoint]:
        return list(self._by_node.values())

    def leader(self, partition: SharedPartition, *codes: ErrorCode) -> tuple[int, int]:
        """Returns the node and the epoch of the leader, if one of the codes says that it is another node."""
        if LEADERSHIP_ERRORS.isdisjoint(codes):
            return NO_LEADER
        hint = self._parts.cluster.hint(partition[0].hex(), partition[1], self._listener)
        if hint is None:
            return NO_LEADER
        self._by_node[hint.endpoint.node_id] = hint.endpoint
        return hint.endpoint.node_id, hint.leader_epoch


def hints_of(parts: BrokerParts, context: RequestContext) -> Hints:
    return Hints(parts, context)
