"""``siltstone nodes listener``: by which listener scans, sinks and other nodes reach the nodes of a store.

Nodes with several listeners have one of them for this, the same on every node, so a cluster moves from plaintext to TLS
in steps: the second listener on every node, then this command, then the clients.
"""

import click

from siltstone.cli.output import print_json, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.metadata.commands import RemoveKey
from siltstone.metadata.node_address import NODE_LISTENER_KEY, choose_node_listener, node_listener

NOT_CHOSEN = "Each node is reached by its first listener without TLS, or else by its first."


@click.command()
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--clear", is_flag=True, help="Let each node choose again.")
@json_option
@store_options
def listener(choice: StoreChoice, name: str | None, clear: bool, as_json: bool) -> None:
    """Show or choose the listener by which scans, sinks and other nodes reach the nodes.

    Without NAME: which one it is. A name is refused unless every live node has a listener of that name; from then on a
    node without it does not start.
    """
    if clear and name is not None:
        raise click.UsageError("Write a NAME or --clear, not both.")
    with choice.open() as store:
        if name is not None:
            store.metadata.execute_all([*choose_node_listener(store.metadata.image, name.upper())])
        elif clear:
            store.metadata.execute(RemoveKey(NODE_LISTENER_KEY))
        chosen = node_listener(store.metadata.image)
    if as_json:
        print_json({"node_listener": chosen})
    else:
        results().print(
            NOT_CHOSEN if chosen is None else f"The nodes are reached by their listeners {chosen}."
        )
