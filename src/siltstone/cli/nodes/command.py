"""``siltstone nodes``: lists the nodes of a store; drains, resumes and forgets them; gives up the log of a lost one.

The commands work on the store's metadata, so they need no node that runs. A command only records what is to be done,
and the nodes do it: a node that is drained hands its partitions over by itself.
"""

import click

from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.in_order import InOrder
from siltstone.cli.nodes.giving_up import ends_table, give_up_log, given_up_ends
from siltstone.cli.nodes.listener import listener
from siltstone.cli.nodes.listing import (
    ENDED_TOGETHER,
    SILENT,
    NodeRow,
    node_rows,
    nodes_table,
    unreachable_words,
    waiting_words,
)
from siltstone.cli.nodes.new_secrets import new_secrets
from siltstone.cli.output import print_json, remarks, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell, count_words, counted
from siltstone.metadata.commands import DrainNode, FenceNode, UnregisterNode
from siltstone.metadata.entities import NodeMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.leases.board import Beat, BoardUnavailable
from siltstone.metadata.opening import newest_beats
from siltstone.model.errors import InvalidRequest
from siltstone.offline.opening.store import Store

NODES_LOOK_INTERVAL_MS = 200


class NodeUnknown(InvalidRequest):
    """No node with this number was ever registered, or it was unregistered."""


class NodeStillLive(InvalidRequest):
    """As far as the metadata knows, the node is live: its log cannot be given up, and it cannot be forgotten."""


node_argument = click.argument("node_id", metavar="NODE", type=click.IntRange(min=0))


@click.group(cls=InOrder, invoke_without_command=True)
@json_option
@store_options
@click.pass_context
def nodes(context: click.Context, choice: StoreChoice, as_json: bool) -> None:
    """List the nodes of a store; drain, resume or unregister one, or give up the log of a lost one.

    A node is live, or draining: its partitions move to other nodes. Ended: it ended together with all others, and leads
    the same partitions after the next start. Silent: for five seconds, and no other node runs to fence it. Fenced: it
    has ended, or was silent; if it still runs, it resumes by itself. Failing over: a live node replays its write-ahead
    log. Failed over: that is done, or its log was given up.
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
        now_ms = store.metadata.now_ms()
        rows = node_rows(store.metadata.image, beats_of(store), now_ms)
    if as_json:
        print_json({"nodes": rows})
    elif rows:
        results().print(nodes_table(rows, now_ms))
        for row in rows:
            if row.waits:
                remarks().print(cell(waiting_words(row)))
            if row.cannot_reach:
                remarks().print(cell(unreachable_words(row)))
    else:
        results().print("This store has no nodes yet; siltstone serve starts one.")


def beats_of(store: Store) -> tuple[Beat, ...]:
    """Returns the newest beat of each node, or none and a remark when the lease board cannot be read."""
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
        for row in _rows(store, node_id):
            _fence_if_ended(store, row)
        store.metadata.execute(UnregisterNode(node_id))
    if as_json:
        print_json({"unregistered": node_id})
    else:
        results().print(f"Node {node_id} is forgotten.")


@nodes.command("give-up")
@node_argument
@yes_option
@json_option
@store_options
def give_up(choice: StoreChoice, node_id: int, is_answered: bool, as_json: bool) -> None:
    """Give up the write-ahead log of a node whose disk is lost for good.

    Records that only that log held are lost: what was acknowledged in the last minute or so before the node died, or
    since the bucket was last reached. The command shows at which offset each partition continues, and asks before it
    does anything. Live nodes then take the partitions at once.

    Start the node instead if its disk can be read on any machine, with the same node id and log folder: nothing is lost
    then. Nor is anything given up when the log is in the bucket: a live node takes it over by itself.

    Should the node come back with that log, its start is refused, and the log stays as it is.
    """
    with choice.open() as store:
        node = _known(store, node_id)
        ends = given_up_ends(store.metadata.image, node_id)
        if not ends:
            _tell_nothing_waits(node_id, as_json)
            return
        if node.is_live:
            raise NodeStillLive(
                f"node {node_id} is live, as far as the metadata knows: stop it, or wait until the others notice that "
                "it is gone, which takes some seconds. If no other node runs, start one first"
            )
        if not as_json:
            results().print(ends_table(ends))
            remarks().print(
                cell(
                    f"Records that were acknowledged from these offsets on are only in {node.wal_location}, if "
                    "anywhere."
                )
            )
        confirm(f"Give the write-ahead log of node {node_id} up for good?", is_answered=is_answered)
        give_up_log(store.metadata, node)
    if as_json:
        print_json({"given_up": node_id, "wal": node.wal_location, "ends": ends})
    else:
        what = "it continues" if len(ends) == 1 else f"all {count_words(len(ends))} continue"
        results().print(
            f"The log of node {node_id} is given up: {what} at the offsets above, led by live nodes."
        )


def _fence_if_ended(store: Store, row: NodeRow) -> None:
    """Fences a node that ended together with all others and leads nothing, as another node would do. Raises
    NodeStillLive."""
    if row.state == SILENT:
        raise NodeStillLive(
            f"node {row.node_id} is silent, and no node runs that would take its place: start it again, or another "
            "one, which fences it after some seconds"
        )
    if row.state != ENDED_TOGETHER:
        return
    if row.leads:
        raise NodeStillLive(
            f"node {row.node_id} has ended, and leads {counted(row.leads, 'partition')} again after its next start: "
            "start it and another node, then siltstone nodes drain, which moves them"
        )
    store.metadata.execute(FenceNode(row.node_id, row.epoch))


def _tell_nothing_waits(node_id: int, as_json: bool) -> None:
    if as_json:
        print_json({"given_up": None, "ends": []})
    else:
        results().print(f"Node {node_id} left nothing open, so there is nothing to give up.")


def _known(store: Store, node_id: int) -> NodeMetadata:
    """Raises NodeUnknown."""
    nodes = store.metadata.image.nodes
    if node_id not in nodes:
        names = ", ".join(map(str, sorted(nodes))) or "none yet"
        raise NodeUnknown(f"there is no node {node_id}; the nodes of this store are: {names}")
    return nodes[node_id]


def _wait_until_drained(store: Store, node_id: int) -> None:
    image = store.metadata.refresh()
    if _is_leaving(image, node_id):
        remarks().print(f"{counted(image.leader_counts[node_id], 'partition')} to hand over ...", style="dim")
    while _is_leaving(image, node_id):
        store.context.clock.block_ms(NODES_LOOK_INTERVAL_MS)
        image = store.metadata.refresh()


def _is_leaving(image: MetadataImage, node_id: int) -> bool:
    """Returns whether the node is live and draining and still leads a partition. A dead node hands nothing over."""
    node = image.nodes.get(node_id)
    if node is None or not node.is_live or not node.is_draining:
        return False
    return image.leader_counts.get(node_id, 0) > 0


def _rows(store: Store, node_id: int) -> list[NodeRow]:
    """Returns the row of the node; none if it was unregistered meanwhile."""
    rows = node_rows(store.metadata.refresh(), beats_of(store), store.metadata.now_ms())
    return [row for row in rows if row.node_id == node_id]


def _tell(store: Store, node_id: int, as_json: bool) -> None:
    rows = _rows(store, node_id)
    if as_json:
        print_json({"nodes": rows})
        return
    for row in rows:
        leads = counted(row.leads, "partition")
        results().print(f"Node {node_id} is {row.state} and leads {leads}.")


nodes.add_command(listener)
nodes.add_command(new_secrets)
