"""Topics that are kept as tables: how far they are; one of them with its columns and files, and its dead letters, which
are replayed after a dry run has shown what would fit."""

import shlex
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from starlette.responses import RedirectResponse, Response

from siltstone.carrying.pipeline.kind import Kind, Scope
from siltstone.console.application import Asked, PageRefused
from siltstone.console.runs import refuse_in_a_broker
from siltstone.console.shown import ShownBytes, shown_bytes
from siltstone.console.store import ConsoleStore
from siltstone.model.console_limits import CONSOLE_DEAD_LETTERS_MAX, CONSOLE_ROWS_MAX
from siltstone.tables.failures import TableNotThere
from siltstone.tables.inspecting import TableRow, file_urls, opened_table, table_rows
from siltstone.value_formats.column_arrays import plain_type

if TYPE_CHECKING:
    from siltstone.tables.dead_letters import DeadLettersShown
    from siltstone.tables.replaying import DeadLetter


class LetterView(msgspec.Struct, frozen=True):
    """A dead letter as a page shows it; ``key`` is None for a record without one, ``value`` for a tombstone."""

    letter: "DeadLetter"
    key: ShownBytes | None
    value: ShownBytes | None


async def tables(asked: Asked) -> Response:
    """The list."""
    rows = [each for each in table_rows(asked.store.image) if asked.visitor.sees(each.topic)]
    return asked.page("tables.html", tables=rows)


async def one_table(asked: Asked) -> Response:
    """One table, opened in its catalog."""
    row = _row(asked)
    name = row.topic
    opened: dict[str, Any] | None = None
    if row.exported_ms:
        opened = await asked.run(partial(_opened, asked.store, name))
    return asked.page("table.html", row=row, opened=opened)


def _row(asked: Asked) -> TableRow:
    """Raises PageRefused."""
    name = asked.part("topic")
    row = next((each for each in table_rows(asked.store.image) if each.topic == name), None)
    if row is None or not asked.visitor.sees(name):
        raise PageRefused(
            404, f"the topic {name} is not kept as a table: siltstone.table.format of the topic says whether"
        )
    return row


async def dead_letters(asked: Asked) -> Response:
    """The records that did not fit, with their reasons; the query ``reason`` chooses the records of one reason."""
    row = _row(asked)
    if not asked.visitor.reads(row.topic):
        raise PageRefused(403, f"{asked.visitor.name} may not read {row.topic}: it needs the right READ")
    reason = asked.query("reason")
    found = await asked.run(partial(_dead_letters, asked.store, row.topic, reason))
    letters = (
        [LetterView(each, _bytes(each.key), _bytes(each.value)) for each in found.letters] if found else []
    )
    return asked.page(
        "dead_letters.html", row=row, found=found, letters=letters, reason=reason, **_replay_state(asked, row)
    )


async def replay_state(asked: Asked) -> Response:
    """The part with the buttons, which is loaded again every few seconds."""
    row = _row(asked)
    return asked.page("dead_letters_run.html", row=row, **_replay_state(asked, row))


async def replay(asked: Asked) -> Response:
    """Begins a dry run, or, after one has ended well, the replay itself."""
    row = _row(asked)
    refuse_in_a_broker(runs_maintenance=asked.store.runs_maintenance)
    is_dry = bool(asked.form.get("dry"))
    if not is_dry and not _replay_state(asked, row)["was_tried"]:
        raise PageRefused(
            409, "look first at what would fit: the dry run is not there, or another one came after it"
        )
    asked.store.runs.begin_maintenance(
        _title(row.topic, is_dry=is_dry),
        asked.store.context,
        Scope(topics=frozenset([row.topic]), is_forced=True),
        partial(_replay_kinds, asked.store, row.topic, is_dry=is_dry),
    )
    return RedirectResponse(f"/tables/{quote(row.topic, safe='')}/dead-letters", 303)


def _replay_state(asked: Asked, row: TableRow) -> dict[str, Any]:
    """``was_tried``: the newest run of this console was a dry run of these dead letters, and has ended well."""
    newest = asked.store.runs.newest
    is_of_it = newest is not None and newest.title in (
        _title(row.topic, is_dry=True),
        _title(row.topic, is_dry=False),
    )
    was_tried = (
        newest is not None
        and newest.title == _title(row.topic, is_dry=True)
        and not newest.is_running
        and not newest.has_failed
    )
    return {
        "newest_run": newest if is_of_it else None,
        "is_busy": newest is not None and newest.is_running,
        "was_tried": was_tried,
        "runs_maintenance": asked.store.runs_maintenance,
        "replay_command": f"siltstone tables replay {shlex.quote(row.topic)} --dead-letters",
    }


def _title(topic: str, *, is_dry: bool) -> str:
    return (
        f"a dry run of the dead letters of {topic}" if is_dry else f"a replay of the dead letters of {topic}"
    )


def _replay_kinds(store: ConsoleStore, topic: str, *, is_dry: bool) -> "list[Kind]":
    """Returns the kind that ``siltstone tables replay`` runs, in a thread."""
    from siltstone.tables.replay_kind import TableReplay  # noqa: PLC0415  loads pyarrow, 20 MiB

    return [TableReplay(store.kind_settings.tables, topic, is_dry=is_dry)]


def _dead_letters(store: ConsoleStore, topic: str, reason: str) -> "DeadLettersShown | None":
    """Reads the table of dead letters, in a thread. None when no record was bad."""
    from siltstone.tables.dead_letters import shown_dead_letters  # noqa: PLC0415  loads pyarrow, 20 MiB

    settings = store.kind_settings.tables
    try:
        with opened_table(store.context, settings, topic, dead_letters=True) as table:
            return shown_dead_letters(table, settings.location, CONSOLE_DEAD_LETTERS_MAX, reason)
    except TableNotThere:
        return None


def _bytes(found: bytes | None) -> ShownBytes | None:
    return None if found is None else shown_bytes(found)


def _opened(store: ConsoleStore, topic: str) -> dict[str, Any] | None:
    """Reads the table, in a thread. None when it has not been made yet."""
    settings = store.kind_settings.tables
    try:
        with opened_table(store.context, settings, topic) as table:
            files = list(table.files())
            return {
                "name": table.name,
                "place": table.place,
                "rows": table.rows,
                "columns": [(field.name, str(plain_type(field.type))) for field in table.schema],
                "partition_by": [each.name for each in table.partition_by],
                "offsets": sorted(table.ledger.offsets.items())[:CONSOLE_ROWS_MAX],
                "files": len(files),
                "size_bytes": sum(each.size_bytes for each in files),
                "urls": file_urls(table, settings)[:20],
            }
    except TableNotThere:
        return None
