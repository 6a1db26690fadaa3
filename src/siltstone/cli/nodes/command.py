"""``siltstone nodes``: lists the nodes of a store; drains, resumes and forgets them.

The commands work on the store's metadata, so they need no node that runs. A command only records what is to happen, and
the nodes do it: a node that is drained hands its partitions over by itself.
"""

import click

from siltstone.cli.in_order import InOrder
from siltstone.cli.nodes.listing import node_rows, nodes_table, waiting_words
from siltstone.cli.output import print_json, remarks, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell, counted
from siltstone.metadata.commands import DrainNode, UnregisterNode
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.leases.board import Beat, BoardUnavailable
from siltstone.metadata.opening import newest_beats
from siltstone.model.errors import InvalidRequest
from siltstone.server.components import Store

LOOK_INTERVAL_MS = 200


class NodeUnknown(InvalidRequest):
    """No node with this number was ever registered, or it was unregistered."""


node_argument = click.argument("node_id", metavar="NODE", type=click.IntRange(min=0))


@click.group(cls=InOrder, invoke_without_command=True)
@json_option
@store_options
@click.pass_context
def nodes(context: click.Context, choice: StoreChoice, as_json: bool) -> None:
    """List the nodes of a store; drain, resume or unregister one.

    A node is live, draining (its partitions move to other nodes), fenced (it has ended, or was silent for five
    seconds), or failing over: a live node replays its write-ahead log, which is in the bucket. A fenced node that still
    runs resumes by itself.
    """
    if context.invoked_subcommand is None:
        list_nodes(choice, as_json)


@nodes.command("list")
@json_option
@store_options
def list_(choice: StoreChoice, as_json: bool) -> None:
    """List the nodes of a store, as siltstone nodes does."""
    list_nodes(choice, as_json)


def list_nodes(choice: StoreChoice, as_json: bool) -> None:
    with choice.open() as store:
        rows, now_ms = node_rows(store.metadata.image, _beats(store)), store.metadata.now_ms()
    if as_json:
        print_json({"nodes": rows})
    elif rows:
        results().print(nodes_table(rows, now_ms))
        for row in rows:
            if row.waits:
                remarks().print(cell(waiting_words(row)))
    else:
        results().print("This store has no nodes yet; siltstone serve starts one.")


def _beats(store: Store) -> tuple[Beat, ...]:
    """The newest beat of each node; none, and a remark, when the lease board cannot be read."""
    try:
        return newest_beats(store.settings.metadata, store.context.clock)
    except BoardUnavailable as trouble:
        remarks().print(cell(f"The last beats are not known: {trouble}"))
        return ()


@nodes.command()
@node_argument
@click.option("--no-wait", is_flag=True, help="Return at once; the node hands its partitions over by itself.")
@json_option
@store_options
def drain(choice: StoreChoice, node_id: int, no_wait: bool, as_json: bool) -> None:
    """Move all partitions of a node to the other nodes.

    The node gets no new ones until siltstone nodes resume, or until it is started again. Clients continue: each
    partition pauses for less than a second or two. Ctrl-C ends the waiting, not the draining.
    """
    with choice.open() as store:
        _known(store, node_id)
        store.metadata.execute(DrainNode(node_id))
        if not no_wait:
            _wait_until_drained(store, node_id)
        _tell(store, node_id, as_json)


@nodes.command()
@node_argument
@json_option
@store_options
def resume(choice: StoreChoice, node_id: int, as_json: bool) -> None:
    """Let a drained node lead partitions again.

    Partitions that it has handed over stay where they are; siltstone topics move brings them back.
    """
    with choice.open() as store:
        _known(store, node_id)
        store.metadata.execute(DrainNode(node_id, is_draining=False))
        _tell(store, node_id, as_json)


@nodes.command()
@node_argument
@json_option
@store_options
def unregister(choice: StoreChoice, node_id: int, as_json: bool) -> None:
    """Forget a node that has ended and leads no partition.

    It is refused while the node is live, leads partitions, or left streams open: then its write-ahead log may hold the
    only copy of acknowledged records.
    """
    with choice.open() as store:
        _known(store, node_id)
        store.metadata.execute(UnregisterNode(node_id))
    if as_json:
        print_json({"unregistered": node_id})
    else:
        results().print(f"Node {node_id} is forgotten.")


def _known(store: Store, node_id: int) -> None:
    """Raises NodeUnknown."""
    known = sorted(store.metadata.image.nodes)
    if node_id not in known:
        names = ", ".join(map(str, known)) or "none yet"
        raise NodeUnknown(f"there is no node {node_id}; the nodes of this store are: {names}")


def _wait_until_drained(store: Store, node_id: int) -> None:
    image = store.metadata.refresh()
    if _is_leaving(image, node_id):
        remarks().print(f"{counted(image.leader_counts[node_id], 'partition')} to hand over ...", style="dim")
    while _is_leaving(image, node_id):
        store.context.clock.block_ms(LOOK_INTERVAL_MS)
        image = store.metadata.refresh()


def _is_leaving(image: MetadataImage, node_id: int) -> bool:
    """Whether the node lives, is drained, and still leads a partition. A dead node hands nothing over."""
    node = image.nodes.get(node_id)
    if node is None or not node.is_live or not node.is_draining:
        return False
    return image.leader_counts.get(node_id, 0) > 0


def _tell(store: Store, node_id: int, as_json: bool) -> None:
    beats = _beats(store) if as_json else ()
    rows = [row for row in node_rows(store.metadata.refresh(), beats) if row.node_id == node_id]
    if as_json:
        print_json({"nodes": rows})
        return
    for row in rows:
        leads = counted(row.leads, "partition")
        results().print(f"Node {node_id} is {row.state} and leads {leads}.")
