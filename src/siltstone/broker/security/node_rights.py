"""What a node may ask of another node, as a table: all that nodes need, and nothing else.

The table stands in place of ACLs: no ACL gives a node more, and none takes anything away. A request whose API is not
here closes the connection, also while authorization is off. Read next: ``sasl.node``, by which a connection becomes
one of a node.
"""

from collections.abc import Mapping
from typing import TypeAlias

from siltstone.broker.request import Question
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.model.acls import AclOperation, AclResourceType

Right: TypeAlias = tuple[AclOperation, AclResourceType]

_NOTHING: frozenset[Right] = frozenset()
_ACTS_FOR_CLUSTER: frozenset[Right] = frozenset({(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)})
_SEES_GROUPS: frozenset[Right] = frozenset(
    {(AclOperation.DESCRIBE, AclResourceType.GROUP), (AclOperation.DESCRIBE, AclResourceType.TOPIC)}
)
_MOVES_GROUPS: frozenset[Right] = frozenset(
    {(AclOperation.READ, AclResourceType.GROUP), (AclOperation.READ, AclResourceType.TOPIC)}
)
_DELETES_GROUPS: frozenset[Right] = frozenset(
    {(AclOperation.DELETE, AclResourceType.GROUP), (AclOperation.READ, AclResourceType.TOPIC)}
)

NODE_RIGHTS: Mapping[int, frozenset[Right]] = {
    # A node that leads no partition of the audit has another one append its records.
    ApiKey.PRODUCE: frozenset({(AclOperation.WRITE, AclResourceType.TOPIC)}),
    # The first request of every connection: which versions the other node speaks.
    ApiKey.API_VERSIONS: _NOTHING,
    # The leader of a partition asks the coordinator whether a transaction has it.
    ApiKey.ADD_PARTITIONS_TO_TXN: _ACTS_FOR_CLUSTER,
    # The coordinator of a share group asks the leaders of partitions how far the group has come, and tells them.
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: _SEES_GROUPS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _MOVES_GROUPS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _DELETES_GROUPS,
    # The coordinator of a transaction has the leaders of its partitions write what was decided.
    ApiKey.WRITE_TXN_MARKERS: _ACTS_FOR_CLUSTER,
}
"""API → the operations that a node is allowed in a request of it."""


def may_node(api_key: int, question: Question) -> bool:
    """Returns whether a node may do what its request of this API asks for."""
    return (question.operation, question.resource_type) in NODE_RIGHTS.get(api_key, frozenset())
