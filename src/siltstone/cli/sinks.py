"""``siltstone sinks list|forget|abandon``: the sinks through which Spark writes topics."""

import click
import msgspec

from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, result, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell
from siltstone.foundation.quantity_words import time_words
from siltstone.metadata.commands import RemoveKey
from siltstone.metadata.image import ImageView
from siltstone.metadata.sinks import SINK_PREFIX, sinks_of
from siltstone.model.errors import InvalidRequest
from siltstone.sinking.batch import abandon as abandon_batch


class SinkNotThere(InvalidRequest):
    """The store has no sink of that name."""


class SinkUnfinished(InvalidRequest):
    """The newest batch of the sink is not finished, so the sink cannot be forgotten."""


class SinkRow(msgspec.Struct, frozen=True):
    """``state`` is that of the newest batch: intent (started, and not finished yet), done or abandoned."""

    sink: str
    query: str
    batch: int
    state: str
    begun_ms: int
    partitions: int
    columns: str


def sink_rows(image: ImageView) -> list[SinkRow]:
    return [
        SinkRow(
            sink_id, batch.query_id, batch.batch_id, batch.state.name.lower(), batch.begun_ms, len(batch.targets),
            batch.schema,
        )
        for sink_id, batch in sinks_of(image).items()
    ]  # fmt: skip


@click.group(cls=InOrder, invoke_without_command=True)
@json_option
@store_options
@click.pass_context
def sinks(context: click.Context, choice: StoreChoice, as_json: bool) -> None:
    """List the sinks of a store; give an unfinished batch up, or forget a sink.

    A sink writes DataFrames of Spark into topics, each batch exactly once. Its record in the metadata names its newest
    batch. A batch in state intent was started and is not finished; Spark finishes it when the query is started again.
    """
    if context.invoked_subcommand is None:
        list_sinks(choice, as_json)


@sinks.command("list")
@json_option
@store_options
def list_(choice: StoreChoice, as_json: bool) -> None:
    """List the sinks of a store, as siltstone sinks does."""
    list_sinks(choice, as_json)


def list_sinks(choice: StoreChoice, as_json: bool) -> None:
    with choice.open() as store:
        rows = sink_rows(store.metadata.image)
    if as_json:
        print_json({"sinks": rows})
        return
    if not rows:
        results().print("There are no sinks.")
        return
    shown = table("sink", "query", ">batch", "state", "started (UTC)", ">partitions")
    for row in rows:
        shown.add_row(
            cell(row.sink), cell(row.query or "-"), str(row.batch), row.state, time_words(row.begun_ms),
            str(row.partitions),
        )  # fmt: skip
    results().print(shown)


@sinks.command()
@click.argument("sink", metavar="SINK")
@store_options
def abandon(choice: StoreChoice, sink: str) -> None:
    """Give up the unfinished batch of a sink.

    Use it for a batch that cannot be finished (SinkBatchStuck), such as one for a topic that was deleted half way.
    Records of the batch that are in a topic already remain there, the others are not written, and the batch counts as
    written. The next batch of the sink is written as usual.
    """
    with choice.open() as store:
        _refuse_unknown(store.metadata.image, sink)
        given_up = abandon_batch(store.context, sink)
    if given_up is None:
        result(f"The newest batch of sink {sink} is finished; there is nothing to give up.")
    else:
        result(f"Batch {given_up.batch_id} of sink {sink} was given up.")


@sinks.command()
@click.argument("sink", metavar="SINK")
@store_options
def forget(choice: StoreChoice, sink: str) -> None:
    """Forget a sink whose query will not run again.

    If the query ran again after all, its last batch could be written twice. The topics are not changed.
    """
    with choice.open() as store:
        image = store.metadata.image
        _refuse_unknown(image, sink)
        batch = sinks_of(image)[sink]
        if not batch.is_over:
            raise SinkUnfinished(
                f"batch {batch.batch_id} of sink {sink} is not finished: start its query again, or give the batch up"
                f" with siltstone sinks abandon {sink}"
            )
        store.metadata.execute(RemoveKey(f"{SINK_PREFIX}{sink}"))
    result(f"Sink {sink} was forgotten.")


def _refuse_unknown(image: ImageView, sink: str) -> None:
    if f"{SINK_PREFIX}{sink}" not in image.keys:
        raise SinkNotThere(f"there is no sink {sink}; siltstone sinks list shows all")
