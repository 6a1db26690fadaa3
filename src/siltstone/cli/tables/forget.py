"""``siltstone tables forget TOPIC``: lets the next export begin a new table.

The table of dead letters is made beside the table, before there is a dead letter. While it never had one, its ledger is
that of a table that was just made, so the next export continues with it. One that has had dead letters is refused: its
ledger says which offsets it has, and the export would take them for an interrupted round's.
"""

import click

from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.output import results
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.model.errors import InvalidRequest
from siltstone.tables.formats.choosing import open_format
from siltstone.tables.inspecting import export_of
from siltstone.tables.progress import remove_columns, remove_progress


class TableStillThere(InvalidRequest):
    """The table exists, so an export would continue with it."""


@click.command()
@click.argument("topic", metavar="TOPIC")
@yes_option
@store_options
def forget(choice: StoreChoice, topic: str, is_answered: bool) -> None:
    """Forget the table of a topic after it was dropped or renamed, so that the next export begins a new one.

    The new table gets the records that the topic still has. Nothing is deleted.
    """
    with choice.open() as store:
        export = export_of(store.metadata.refresh(), topic)
        with open_format(export.config.table_format, store.kind_settings.tables) as tables:
            if tables.load(export.table) is not None:
                raise TableStillThere(f"table {export.table} is still there: drop or rename it first")
            dead_letters = tables.load(export.dead_letter_table)
            if dead_letters is not None and dead_letters.ledger.offsets:
                raise TableStillThere(
                    f"table {export.dead_letter_table} is still there, and has dead letters of {topic}, which the next"
                    " export would not write again: drop or rename it first"
                )
        confirm(
            f"Forget table {export.table}, and export {topic} from its beginning?", is_answered=is_answered
        )
        store.metadata.execute(remove_progress(export.topic.topic_id))
        store.metadata.execute(remove_columns(export.topic.topic_id))
    results().print(
        f"Forgotten: the next export of {topic} begins a new table.", markup=False, soft_wrap=True
    )
