"""``siltstone balance``: shows the load of the brokers, plans moves with a reason for each, and carries them out.

The commands work on the store's metadata and on what the brokers have measured in the last half minute.
"""

import click

from siltstone.cli.balance.tables import loads_table, moves_table, plan_json
from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, progress, remarks, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell, counted
from siltstone.cluster.balancing.balancer import (
    MOVES_AT_A_TIME,
    ON,
    SWITCH_KEY,
    is_switched_on,
)
from siltstone.cluster.balancing.carrying_out import carry_out
from siltstone.cluster.balancing.loads import plan_of
from siltstone.cluster.balancing.planning import BalancePlan
from siltstone.metadata.commands import MovePartitions, PutKey, RemoveKey
from siltstone.metadata.opening import newest_loads
from siltstone.offline.opening.store import Store

MORE_COUNTED_MAX = 100
"""People want to know whether it is few or many; a cluster of thousands of partitions would take seconds to count."""


@click.group(cls=InOrder, invoke_without_command=True)
@json_option
@store_options
@click.pass_context
def balance(context: click.Context, choice: StoreChoice, as_json: bool) -> None:
    """Even out the load of the brokers.

    Without a subcommand: the plan. Balancing looks at the last minute: bytes in, bytes out and requests of each
    partition, and how many partitions each broker leads. A broker more than a fifth away from the mean is out of
    balance, but below 1 MiB/s and 100 requests a second there is nothing to gain.
    """
    if context.invoked_subcommand is None:
        show_plan(choice, as_json)


@balance.command()
@json_option
@store_options
def plan(choice: StoreChoice, as_json: bool) -> None:
    """Show which partitions would move, with a reason for each, or why none would."""
    show_plan(choice, as_json)


def show_plan(choice: StoreChoice, as_json: bool) -> None:
    with choice.open() as store:
        made = _plan(store)
    if as_json:
        print_json(plan_json(made))
        return
    _show(made)
    if made.moves:
        remarks().print(f"siltstone balance run carries this out. {_more_words(made)}".rstrip(), style="dim")


@balance.command()
@json_option
@store_options
def run(choice: StoreChoice, as_json: bool) -> None:
    """Carry the plan out once, and wait until the partitions have moved.

    Each pauses for less than a second or two. Ctrl-C ends the waiting; moves that have started continue.
    """
    with choice.open() as store:
        made = _plan(store)
        if not as_json:
            _show(made)
        if made.moves:
            _carry_out(store, made)
    if as_json:
        print_json(plan_json(made))
    elif made.moves:
        results().print(f"{counted(len(made.moves), 'partition')} moved.")
        if made.more_wanted:
            remarks().print(
                f"{_more_words(made)} Run it again in a minute, when the loads have been measured."
            )


def _more_words(made: BalancePlan) -> str:
    """Says how many moves are left to the next plan; nothing if none is."""
    if not made.more_wanted:
        return ""
    are = "is" if made.more_wanted == 1 else "are"
    at_least = "At least " if made.more_wanted == MORE_COUNTED_MAX else ""
    return f"{at_least}{made.more_wanted} more {are} wanted."


def _carry_out(store: Store, made: BalancePlan) -> None:
    """Raises MoveNotDone, and the refusals of MovePartitions."""
    with progress(remarks()) as bars:
        task = bars.add_task("moving", total=len(made.moves))
        carry_out(
            made.moves,
            lambda turn: store.metadata.execute(
                MovePartitions(tuple((each.topic_id, each.partition, each.target) for each in turn))
            ),
            store.metadata.refresh,
            store.context.clock,
            lambda turn: bars.advance(task, len(turn)),
        )


@balance.command()
@json_option
@store_options
def on(choice: StoreChoice, as_json: bool) -> None:
    """Let the brokers balance by themselves, from now on.

    The live broker with the lowest number plans every half minute. It acts when three plans in a row were not empty,
    moves two partitions of a broker at a time, and then rests for five minutes; a partition stays for half an hour.
    """
    _switch(choice, is_on=True, as_json=as_json)


@balance.command()
@json_option
@store_options
def off(choice: StoreChoice, as_json: bool) -> None:
    """Let partitions stay where they are. Moves that have started continue."""
    _switch(choice, is_on=False, as_json=as_json)


@balance.command()
@json_option
@store_options
def status(choice: StoreChoice, as_json: bool) -> None:
    """Show the load of each broker, and whether brokers balance by themselves."""
    with choice.open() as store:
        made, is_on = _plan(store), is_switched_on(store.metadata.image)
    if as_json:
        print_json({"automatic": is_on, **plan_json(made)})
        return
    results().print(loads_table(made.before))
    results().print(f"Brokers balance by themselves: {'yes' if is_on else 'no (siltstone balance on)'}.")


def _plan(store: Store) -> BalancePlan:
    """Raises BoardUnavailable."""
    loads = newest_loads(store.settings.metadata, store.context.clock)
    return plan_of(store.metadata.image, loads, store.metadata.now_ms(), more_max=MORE_COUNTED_MAX)


def _show(made: BalancePlan) -> None:
    results().print(loads_table(made.before, made.after if made.moves else None))
    if made.moves:
        results().print(moves_table(made.moves))
    else:
        results().print(cell(f"Nothing is moved: {made.why_empty}."), soft_wrap=True)


def _switch(choice: StoreChoice, *, is_on: bool, as_json: bool) -> None:
    with choice.open() as store:
        if is_on:
            store.metadata.execute(PutKey(SWITCH_KEY, ON, overwrite=True))
        else:
            store.metadata.execute(RemoveKey(SWITCH_KEY))
    if as_json:
        print_json({"automatic": is_on})
    else:
        results().print(
            f"Brokers balance by themselves now, {MOVES_AT_A_TIME} partitions of a broker at a time."
            if is_on
            else "Brokers leave partitions where they are now."
        )
