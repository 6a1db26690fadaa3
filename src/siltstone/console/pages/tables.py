"""Topics that are kept as tables: how far they are, and one of them with its columns and files."""

from functools import partial
from typing import Any

from starlette.responses import Response

from siltstone.console.application import Asked, PageRefused
from siltstone.console.store import ConsoleStore
from siltstone.model.console_limits import CONSOLE_ROWS_MAX
from siltstone.tables.failures import TableNotThere
from siltstone.tables.inspecting import file_urls, opened_table, table_rows
from siltstone.value_formats.column_arrays import plain_type


async def tables(asked: Asked) -> Response:
    """The list."""
    rows = [each for each in table_rows(asked.store.image) if asked.visitor.sees(each.topic)]
    return asked.page("tables.html", tables=rows)


async def one_table(asked: Asked) -> Response:
    """One table, opened in its catalog."""
    name = asked.part("topic")
    row = next((each for each in table_rows(asked.store.image) if each.topic == name), None)
    if row is None or not asked.visitor.sees(name):
        raise PageRefused(
            404, f"the topic {name} is not kept as a table: siltstone.table.format of the topic says whether"
        )
    opened: dict[str, Any] | None = None
    if row.exported_ms:
        opened = await asked.run(partial(_opened, asked.store, name))
    return asked.page("table.html", row=row, opened=opened)


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
