"""``siltstone table TOPIC``: shows the newest value of each key."""

from collections.abc import Iterable, Iterator

import click
import msgspec
from rich.text import Text

from siltstone.cli import output
from siltstone.cli.cluster_options import ClusterChoice, cluster_options
from siltstone.cli.completion import complete_topics
from siltstone.cli.failures import Failure
from siltstone.cli.json_records import written_bytes
from siltstone.cli.tail.formats import moment_words
from siltstone.cli.words import cell, counted, shown_bytes, size_words
from siltstone.kafka_client.keyed_view import Entry, KeyedView
from siltstone.model.limits import MIB

ROWS_DEFAULT = 100
MEMORY_MIB = 1024
VALUE_CHARACTERS_MAX = 120


class KeyRow(msgspec.Struct, frozen=True):
    """``entry``: the newest record of the key; None if there is none or it is a tombstone."""

    key: bytes
    entry: Entry | None


@click.command()
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option("--key", "keys", multiple=True, metavar="KEY", help="Show only this key; repeatable.")
@click.option("--prefix", metavar="TEXT", help="Show only keys that begin with this text.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=ROWS_DEFAULT,
    metavar="N",
    help=f"Show at most N rows [{ROWS_DEFAULT}].",
)
@click.option(
    "--memory",
    type=click.IntRange(min=1),
    default=MEMORY_MIB,
    metavar="MIB",
    help=f"Stop if keys and values need more than this many MiB [{MEMORY_MIB}].",
)
@cluster_options  # fmt: skip
def table(
    choice: ClusterChoice,
    topic: str,
    keys: tuple[str, ...],
    prefix: str | None,
    limit: int,
    memory: int,
    as_json: bool,
) -> None:
    """Show a topic as a table: the newest value of each key.

    The command reads the topic from its beginning to its current end. Records without a key are skipped, and a record
    without a value (a tombstone) removes its key. Key compaction keeps a topic with cleanup.policy=compact short. Exit
    status 1 if a --key is not in the topic.
    """
    bootstrap = ",".join(map(str, choice.bootstrap))
    with KeyedView(bootstrap, topic, bytes_max=memory * MIB) as view:
        rows = list(_named(view, keys) if keys else _found(view, (prefix or "").encode(), limit))
        _show(view, rows, as_json=as_json)
    if any(row.entry is None for row in rows):
        raise Failure


def _named(view: KeyedView, keys: Iterable[str]) -> Iterator[KeyRow]:
    for key in keys:
        name = key.encode()
        yield KeyRow(name, _entry(view, name))


def _entry(view: KeyedView, key: bytes) -> Entry | None:
    try:
        return view.entry(key)
    except KeyError:  # a tombstone may arrive at any time
        return None


def _found(view: KeyedView, prefix: bytes, limit: int) -> Iterator[KeyRow]:
    matching = sorted(key for key in view if key.startswith(prefix))
    for key in matching[:limit]:
        if (entry := _entry(view, key)) is not None:
            yield KeyRow(key, entry)
    if len(matching) > limit:
        output.remarks().print(
            f"{counted(len(matching) - limit, 'more key')} (--limit)", style="dim", markup=False
        )


def _show(view: KeyedView, rows: list[KeyRow], *, as_json: bool) -> None:
    if as_json:
        output.print_json({"topic": view.topic, "keys": len(view), "rows": [_row_json(row) for row in rows]})
        return
    shown = output.table("key", "value", ">partition", ">offset", "time (UTC)")
    for row in rows:
        shown.add_row(*_cells(row))
    output.results().print(shown)
    skipped = view.records_without_key
    of_skipped = f"; {counted(skipped, 'record')} without a key {'was' if skipped == 1 else 'were'} skipped"
    output.remarks().print(
        f"{view.topic}: {counted(len(view), 'key')}, {size_words(view.size_bytes)} in memory"
        f"{of_skipped if skipped else ''}",
        style="dim",
        markup=False,
    )


def _cells(row: KeyRow) -> tuple[str | Text, ...]:
    entry = row.entry
    if entry is None:
        return cell(shown_bytes(row.key)), "(not found)", "", "", ""
    value = shown_bytes(entry.value)
    is_cut = output.is_drawn() and len(value) > VALUE_CHARACTERS_MAX
    return (
        cell(shown_bytes(row.key)),
        cell(value[: VALUE_CHARACTERS_MAX - 1] + "…" if is_cut else value),
        str(entry.partition),
        str(entry.offset),
        moment_words(entry.timestamp_ms),
    )


def _row_json(row: KeyRow) -> dict[str, object]:
    key: dict[str, object] = dict(written_bytes("key", row.key))
    if row.entry is None:
        return {**key, "value": None, "offset": None}
    return {
        **key,
        **written_bytes("value", row.entry.value),
        "partition": row.entry.partition,
        "offset": row.entry.offset,
        "timestamp": row.entry.timestamp_ms,
    }
