"""``siltstone status``: the level of a store, what each node runs, and until when one can go back, on one screen."""

import click
from rich.console import RenderableType

from siltstone.cli.levels.standing import NodeStanding, StoreStanding, WayBack, standing_of
from siltstone.cli.nodes.command import beats_of
from siltstone.cli.output import print_json, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.foundation.quantity_words import time_words


@click.command()
@json_option
@store_options
def status(choice: StoreChoice, as_json: bool) -> None:
    """Show the level of a store, what each of its nodes runs, and until when one can go back to which version.

    The level says which formats may be in the store. siltstone upgrade raises it once every live node runs a version
    that knows it; until then each node can be given the older version again. No broker is asked.
    """
    with choice.open() as store:
        image = store.metadata.refresh()
        found = standing_of(image, beats_of(store), store.metadata.now_ms())
    if as_json:
        print_json({"status": found})
        return
    out = results()
    out.print(level_words(found), markup=False, soft_wrap=True)
    if found.nodes:
        out.print(_nodes_table(found.nodes))
    else:
        out.print("This store has no nodes yet; siltstone serve starts one.")
    if found.features:
        promised = ", ".join(f"{name} {level}" for name, level in found.features.items())
        out.print(
            f"Promised to clients, so every version that is started needs it: {promised}.",
            markup=False,
            soft_wrap=True,
        )
    for line in back_words(found.way_back):
        out.print(line, markup=False, soft_wrap=True)
    if found.way_back.until_level is not None:
        out.print(next_words(found), markup=False, soft_wrap=True)


def level_words(found: StoreStanding) -> str:
    raised = (
        ", which was never raised"
        if found.raised_ms is None
        else f", to which siltstone {found.raised_by} raised it on {time_words(found.raised_ms)}"
    )
    return (
        f"The store has level {found.level}{raised}. This program is siltstone {found.program} and knows levels up to "
        f"{found.newest_level}."
    )


def _nodes_table(nodes: tuple[NodeStanding, ...]) -> RenderableType:
    shown = table(">node", "state", "version", ">level", "since (UTC)")
    for node in nodes:
        since = "-" if node.since_ms is None else time_words(node.since_ms)
        shown.add_row(str(node.node_id), node.state, node.version or "before levels", str(node.level), since)
    return shown


def back_words(way: WayBack) -> list[str]:
    """Says to which versions one can go back, and what is left of that where it has ended."""
    until = (
        ""
        if way.until_level is None
        else f", until siltstone upgrade raises it to {way.until_level}: no way back then"
    )
    lines = [f"The way back is open to every version that knows level {way.level}{until}."]
    if way.metadata_version is not None:
        lines.append(
            f"Versions that do not know level {way.level} refuse this store. They can read a store that is restored "
            f"from a backup of version {way.metadata_version} of the metadata or an earlier one, without what was "
            "written since."
        )
    return lines


def next_words(found: StoreStanding) -> str:
    old = ", ".join(str(node.node_id) for node in found.too_old)
    if old:
        return f"Level {found.newest_level} waits for node {old}: install siltstone {found.program} there and restart."
    raises = f"siltstone upgrade raises the level to {found.newest_level}: nothing waits."
    return f"{raises} Back up first: siltstone backup TO"
