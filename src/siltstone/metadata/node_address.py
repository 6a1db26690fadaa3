"""The addresses of the nodes' brokers and the id of the Kafka cluster, as keys of the metadata.

A scan asks the broker of a stream's owner for what is in no object yet. An address outlives a node that was killed, and
another store may listen there by then, so a scan compares the cluster id before it believes an answer.
"""

from siltstone.metadata.commands import PutKey
from siltstone.metadata.image import ImageView

CLUSTER_ID_KEY = "kafka/cluster-id"
_PREFIX = "node-address/"


def put_node_address(node_id: int, address: str) -> PutKey:
    """Returns a command that says where clients reach the node: HOST:PORT. A node executes it before it begins to
    listen."""
    return PutKey(f"{_PREFIX}{node_id}", address.encode(), overwrite=True)


def node_address(image: ImageView, node_id: int) -> str | None:
    """Returns the address of the node's broker; None before its first start."""
    stored = image.keys.get(f"{_PREFIX}{node_id}")
    return None if stored is None else stored.decode()


def stored_cluster_id(image: ImageView) -> str | None:
    """Returns the cluster id that the store's brokers tell their clients; None before the first start of a broker."""
    stored = image.keys.get(CLUSTER_ID_KEY)
    return None if stored is None else stored.decode()
