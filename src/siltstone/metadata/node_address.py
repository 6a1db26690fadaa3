"""The addresses of the nodes' brokers and the id of the Kafka cluster, as keys of the metadata.

A scan asks the broker of a stream's owner for what is in no object yet. An address outlives a node that was killed, and
another store may listen there by then, so a scan compares the cluster id before it believes an answer. Which listener
a node tells is one fact of the store, the *node listener*: nodes with several would otherwise each tell another.
"""

from collections.abc import Iterator

from siltstone.metadata.commands import PutKey
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.image import ImageView
from siltstone.model.errors import InvalidRequest

CLUSTER_ID_KEY = "kafka/cluster-id"
NODE_LISTENER_KEY = "node-listener"
NODE_SECRETS_KEY = "node-secrets"
"""A random token: each node makes a new secret when it changes."""

_PREFIX = "node-address/"


class ListenerMissing(InvalidRequest):
    """A node of the store does not have the listener by which it is to be reached."""


def put_node_address(node_id: int, address: str) -> PutKey:
    """Returns a command that says where clients reach the node: HOST:PORT. A node executes it before it begins to
    listen."""
    return PutKey(f"{_PREFIX}{node_id}", address.encode(), overwrite=True)


def node_address(image: ImageView, node_id: int, listener: str = "") -> str | None:
    """Returns the address of the node's broker; None before its first start. With the name of a ``listener``: the
    address of that one; None if this node has no such listener. Raises ListenerMissing if no node has one."""
    if listener:
        return _address_of_listener(image, node_id, listener)
    stored = image.keys.get(f"{_PREFIX}{node_id}")
    return None if stored is None else stored.decode()


def listener_addresses(image: ImageView, node_id: int) -> dict[str, str]:
    """Returns the address of each listener of a node, by name."""
    node = image.nodes.get(node_id)
    return {} if node is None else {each.name: address_text(each) for each in node.listeners}


def _address_of_listener(image: ImageView, node_id: int, name: str) -> str | None:
    having = {
        node.node_id: listener
        for node in image.nodes.values()
        for listener in node.listeners
        if listener.name == name
    }
    if not having:
        there = sorted({listener.name for node in image.nodes.values() for listener in node.listeners})
        raise ListenerMissing(
            f"siltstone.listener names {name}, and no node of this store has a listener of that name: set it to "
            f"{' or '.join(there) or 'nothing, because no node has started yet'}, or leave it out"
        )
    return address_text(having[node_id]) if node_id in having else None


def node_listener(image: ImageView) -> str | None:
    """Returns the name of the listener by which scans, sinks and nodes reach the nodes; None: each node chooses."""
    stored = image.keys.get(NODE_LISTENER_KEY)
    return None if stored is None else stored.decode()


def choose_node_listener(image: ImageView, name: str) -> Iterator[PutKey]:
    """Yields the commands that make ``name`` the node listener and tell its addresses. Raises ListenerMissing unless
    every live node has it."""
    having = {
        node.node_id: listener
        for node in image.nodes.values()
        for listener in node.listeners
        if listener.name == name
    }
    if missing := [
        node.node_id for node in image.nodes.values() if node.is_live and node.node_id not in having
    ]:
        raise ListenerMissing(
            f"node {', '.join(map(str, missing))} has no listener {name}: add it there first, and restart the node"
        )
    yield PutKey(NODE_LISTENER_KEY, name.encode(), overwrite=True)
    for node_id, listener in having.items():
        yield put_node_address(node_id, address_text(listener))


def address_text(listener: NodeListener) -> str:
    """Returns HOST:PORT; an IPv6 address is in brackets."""
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    return f"{host}:{listener.port}"


def stored_cluster_id(image: ImageView) -> str | None:
    """Returns the cluster id that the store's brokers tell their clients; None before the first start of a broker."""
    stored = image.keys.get(CLUSTER_ID_KEY)
    return None if stored is None else stored.decode()
