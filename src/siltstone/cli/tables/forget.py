"""``siltstone tables forget TOPIC``: lets the next export begin a new table."""

import click

from siltstone.cli.asking import confirm, yes_option
from siltstone.cli.output import results
from siltstone.cli.store_options import StoreChoice, store_options
from siltstone.model.errors import InvalidRequest
from siltstone.tables.formats.choosing import open_format
from siltstone.tables.inspecting import export_of
from siltstone.tables.progress import remove_progress


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
            both = (export.table, export.dead_letter_table)
            there = [name for name in both if tables.load(name) is not None]
            if there:
                raise TableStillThere(
                    f"table {there[0]} is still there: drop or rename it first; {' and '.join(both)} are the topic's,"
                    " and the second exists also without dead letters"
                )
        confirm(
            f"Forget table {export.table}, and export {topic} from its beginning?", is_answered=is_answered
        )
        store.metadata.execute(remove_progress(export.topic.topic_id))
    results().print(
        f"Forgotten: the next export of {topic} begins a new table.", markup=False, soft_wrap=True
    )
